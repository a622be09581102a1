"""Recurrent mode on the training batch gives other outputs than the trajectory had.

Checks
    The policy is run in recurrent mode on each training batch as the loss gets it; its outputs are
    held against the isolated replay of the trajectories that the steps were cut from.

Why it matters
    This is what the loss differentiates. If it is not the policy that acted, everything behind it
    is off: a state that was lost, an observation that was normalised twice, a time axis that is
    none.

Says nothing when
    another RP check names the reason already, the module has no recurrent mode, or the loss leaves
    the first steps out (they are left out here too). Nor of episodes that were given another goal
    throughout, as in hindsight. Nor where the loss leaves the memory out, as RP502 has it.

Fix
    Make replay hand out what was collected: same observations, same flags, the stored state at the
    slice's start.

Example
    with set_recurrent_mode(True): policy(batch)["logits"]    # == the collected logits
"""

from __future__ import annotations

from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.burn_in_by_loss import burn_in, positions
from rnncheck.checks.evidence.burn_in_by_maker import APPROXIMATED, approximated
from rnncheck.checks.evidence.comparison import Mismatch, mismatches
from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.left_out import needs_sequence
from rnncheck.checks.evidence.opening_states import (
    begins_with_trajectories,
    is_of_acting_alone,
    opens_alone,
    wrong_openings,
)
from rnncheck.checks.evidence.parts_that_run import part_that_runs
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import needs_recurrence, read_by_pass
from rnncheck.checks.evidence.relabelled import GOAL, relabelled
from rnncheck.checks.evidence.replayed_samples import ReplayedSample, replayed_sample
from rnncheck.checks.evidence.state_handover import NO_STATE_KEPT
from rnncheck.checks.evidence.training_batches import Sample, samples, truth
from rnncheck.checks.evidence.unmarked_joins import crosses
from rnncheck.checks.replay.start_flags import lost_start
from rnncheck.checks.rule import CouldNotLook, Deferred, Judgement, NotApplicable, Observation, Rule
from rnncheck.numerics.kernels import reason_of
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.passes import run_recurrent
from rnncheck.results.model import Severity, Stage, Where


def run(evidence: Evidence) -> Judgement:
    """Every training batch."""
    needs_recurrence(evidence, evidence.policy)
    needs_sequence(evidence)
    if crosses(evidence):
        raise Deferred("the batch joins steps without a mark", "RP501", "RP502", "RP506")
    if opens_alone(evidence.policy) and not begins_with_trajectories(evidence):
        raise NotApplicable(NO_STATE_KEPT)
    compared, goals, strange = 0, False, list[int]()
    for number, sample in enumerate(samples(evidence)):
        if _named_elsewhere(evidence, sample, number):
            raise Deferred("keys or states are lost in replay", "RP503", "RP504")
        if approximated(evidence, sample):
            raise NotApplicable(APPROXIMATED)
        strange += [] if bool(sample.known.any()) else [number]
        keys, mask = _compared_keys(evidence), _judged(evidence, sample)
        others = relabelled(evidence, sample)
        goals, mask = goals or bool((mask & others).any()), mask & ~others
        compared += len(keys) * int(mask.sum())
        found = _differing(evidence, sample, keys, mask)
        if found:
            return Judgement((_observed(found, number),), compared)
    if not compared and goals:
        raise NotApplicable(GOAL)
    if not compared:
        raise CouldNotLook("no step of the training batches could be replayed")
    if strange:
        raise CouldNotLook(
            f"no step of training batch {strange[0]} is one that was collected: what it shows was"
            " changed on the way, or it comes from elsewhere"
        )
    return Judgement((), compared, f"{compared} replayed outputs are the trajectory's")


def _named_elsewhere(evidence: Evidence, sample: Sample, number: int) -> bool:
    if lost_start(sample, number) is not None:
        return True
    starts = sample.marked & sample.known
    for key in evidence.policy.carry:
        stored, recorded = sample.rows.get(key, None), sample.steps.column(key)
        if recorded is None:
            continue
        if stored is None and begins_with_trajectories(evidence):
            continue
        if stored is None and is_of_acting_alone(evidence, sample, key):
            continue
        if stored is None:
            return not approximated(evidence, sample)
        if bool(wrong_openings(evidence, sample, key, starts, stored, recorded).any()):
            return not approximated(evidence, sample)
    return False


def _compared_keys(evidence: Evidence) -> list[Key]:
    """Float outputs of the policy whose true values are known."""
    known = truth(evidence).outputs
    keys = comparable_outputs(
        evidence, evidence.policy, constructed(evidence, evidence.policy).truth
    )
    return [key for key in keys if key in known and known[key].is_floating_point()]


def _judged(evidence: Evidence, sample: Sample) -> Tensor:
    """Steps that were traced back to a replayed trajectory, behind the burn-in of their slice."""
    mask = _replayed(evidence, sample).has
    skip = burn_in(evidence, sample)
    return mask & (positions(sample) >= skip) if skip else mask


def _replayed(evidence: Evidence, sample: Sample) -> ReplayedSample:
    return evidence.once("replayed sample", lambda: replayed_sample(evidence, sample), id(sample))


def _differing(
    evidence: Evidence, sample: Sample, keys: list[Key], mask: Tensor
) -> Mismatch | None:
    """The worst output of the replayed batch that is not the trajectory's."""
    if not keys or not bool(mask.any()):
        return None
    subject, known = evidence.policy, _replayed(evidence, sample)
    left = set(keys) - set(subject.reads)  # what the pass does not give anew is not compared
    batch = read_by_pass(subject, sample.td).exclude(*left)
    try:
        part = part_that_runs(subject, batch)
        out = run_recurrent(subject, batch, module=part).reshape(sample.rows.shape)
    except Exception as error:
        raise CouldNotLook(
            f"recurrent mode raises on the training batch ({reason_of(error)})"
        ) from error
    keys = [key for key in keys if key in tensor_keys(out)]
    want = TensorDict({key: known.outputs[key] for key in keys}, sample.rows.shape)
    found = mismatches(_select(out, keys), want, None, keys, mask)
    return found[0] if found else None


def _select(td: TensorDictBase, keys: list[Key]) -> TensorDict:
    return TensorDict({key: td.get(key) for key in keys}, td.batch_size)


def _observed(found: Mismatch, number: int) -> Observation:
    d = found.difference
    return Observation(
        message=(
            f"recurrent mode on the training batch gives another {dotted(found.key)} than the"
            " trajectory had"
        ),
        key=dotted(found.key),
        quantity=(
            f"max abs difference of {dotted(found.key)}, replayed against the sequential trajectory"
        ),
        measured=d.worst,
        on=f"training batch {number}",
        bound=found.bound,
        bound_formula=found.formula,
        where=Where((number, d.row), d.step, d.feature, first_step=d.first_step),
        cause=(
            "replay changes what the policy reads: observations transformed twice, another layout,"
            " a lost state"
        ),
        fix=(
            "compare the batch's observations, flags and states with the collected ones at the"
            " named step"
        ),
        details={"elements beyond the bound": f"{d.differing} of {d.elements}"},
    )


RULE = Rule(
    code="RP507",
    name="replayed-outputs-differ",
    holds="a recurrent pass over a training batch gives the recorded outputs",
    severity=Severity.ERROR,
    stage=Stage.REPLAY,
    run=run,
    needs=(Stage.POLICY, Stage.REPLAY),
    dear=True,
    replays=True,
)
