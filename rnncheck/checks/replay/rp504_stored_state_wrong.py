"""The state at a slice's start is not the one that the trajectory had there.

Checks
    At every step of the training batches where recurrent mode takes its start from the stored state
    (marked steps, and first steps of rows), the stored state is held against the one that was
    collected for that very step. `rnncheck run` waits for rows that begin inside of an episode
    where the script has set all states to zero and the first rows begin with episodes. And a loss
    is told that reads the state which a row's first step left, and none ahead of it, and a pass
    inside of it that reads none of those with which rows begin inside of an episode, unmarked.

Why it matters
    A slice that starts from zero, from another step's or another slice's state is replayed with a
    memory that the trajectory never had there.

Says nothing when
    the batch holds no state (RP503), or a module of your own starts anew at a start flag whatever
    is stored there. Nor where sequences are told from steps by holding no state, or the first steps
    of each slice are spent on its state (burn-in, in the loss or before it). A start of a
    trajectory is held against its collected state even then, and a state that is, to the bit,
    the one of the step beside is told.

Fix
    Store the state with every step and let the sampler carry it along; do not shift or zero it.

Example
    batch["h"][..., 0, :] is the collected h of the slice's first step
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rnncheck.checks.evidence.burn_in_by_loss import warms_up
from rnncheck.checks.evidence.burn_in_by_maker import (
    APPROXIMATED,
    MODE,
    SEQUENTIAL,
    last_step_alone,
    working,
)
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.opening_states import (
    begins_with_trajectories,
    opens_alone,
    wrong_openings,
)
from rnncheck.checks.evidence.state_handover import NO_STATE_KEPT
from rnncheck.checks.evidence.training_batches import Sample, same_values, samples
from rnncheck.checks.replay.burnt_from import burns_in_from_another
from rnncheck.checks.replay.states_dropped import drops_the_state
from rnncheck.checks.replay.states_read import opens_behind_the_step
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.numerics.difference import gap
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where

CAUSE = (
    "the state was zeroed, shifted in time, or taken from another slice on its way through replay"
)
FIX = (
    "store every step's state and sample it with its step; or leave the first steps out of the"
    " loss (burn-in)"
)


def run(evidence: Evidence) -> Judgement:
    """Stored states at the starts of slices."""
    if opens_alone(evidence.policy) and not begins_with_trajectories(evidence):
        raise NotApplicable(NO_STATE_KEPT)
    compared, burned = 0, 0
    for number, sample in enumerate(samples(evidence)):
        starts = sample.marked & sample.known
        for key in evidence.policy.carry:
            recorded, stored = sample.steps.column(key), sample.rows.get(key, None)
            if recorded is None or stored is None:
                continue
            wrong = wrong_openings(evidence, sample, key, starts, stored, recorded)
            spent = wrong & _burned(evidence, sample) if bool(wrong.any()) else wrong
            spent = spent & ~_of_the_step_beside(evidence, sample, key, spent, stored, recorded)
            if evidence.pipeline.burn_ins and bool(sample.steps.random.any()):
                spent = spent | _made_anew(evidence, sample, key, wrong, stored, recorded)
            wrong = wrong & ~spent
            burned += int(spent.sum())
            compared += int((starts & ~spent).sum())
            if bool(wrong.any()):
                finding = _observed(key, number, sample, wrong, stored, recorded)
                if last_step_alone(evidence):
                    finding = replace(finding, cause=f"a burn-in made it: {SEQUENTIAL}", fix=MODE)
                return Judgement((finding,), compared)
    later, wrong_later = _later(evidence)
    compared += later
    if wrong_later is not None and not burned:
        return Judgement((wrong_later,), compared)
    for look in (burns_in_from_another, opens_behind_the_step, drops_the_state):
        if (by_the_loss := look(evidence)) is not None:
            return Judgement((by_the_loss,), compared)
    if not compared:
        if burned:
            raise NotApplicable(APPROXIMATED)
        if begins_with_trajectories(evidence):
            raise NotApplicable("every row begins with its trajectory, and holds no state")
        if evidence.policy.by_absence:
            raise NotApplicable(NO_STATE_KEPT)
        raise CouldNotLook("no training batch holds a state at a step that could be traced back")
    beside = f", {burned} more were burned in" if burned else ""
    return Judgement((), compared, f"{compared} stored states are the collected ones{beside}")


def _later(evidence: Evidence) -> tuple[int, Observation | None]:
    """How many states of later rows were seen, and those of them that are others."""
    compared, batch = 0, next(iter(samples(evidence)), None)
    if batch is None or bool(_burned(evidence, batch).any()):
        return 0, None
    for opening in evidence.pipeline.openings:
        for key in evidence.policy.carry:
            given, recorded = (opening.get((n, *key), None) for n in ("given", "collected"))
            if given is None or recorded is None:
                continue
            compared += len(given)
            other = ~same_values(given, recorded)
            if bool(other.any()):
                return compared, _observed_later(key, other, given, recorded)
    return compared, None


def _observed_later(key: Key, other: Tensor, given: Tensor, recorded: Tensor) -> Observation:
    count = int(other.sum())
    return Observation(
        message=(
            f"{counted(count, 'row')} that began inside of an episode, behind the first update,"
            f" opened with another {dotted(key)} than was collected there"
        ),
        key=dotted(key),
        quantity=f"max abs difference of {dotted(key)}, trained from against collected",
        measured=float(gap(given, recorded).max()),
        on="rows of a later batch",
        bound_formula="the same in the stored dtype",
        cause=CAUSE,
        fix=FIX,
    )


def _burned(evidence: Evidence, sample: Sample) -> Tensor:
    """Starts ``[rows, steps]`` whose state a burn-in makes, before the loss or inside it."""
    if working(evidence):
        return sample.marked & ~sample.trajectory_start()
    inside = warms_up(evidence, sample)
    return torch.full_like(sample.marked, inside)


def _of_the_step_beside(
    evidence: Evidence, sample: Sample, key: Key, spent: Tensor, stored: Tensor, recorded: Tensor
) -> Tensor:
    """``spent``, where most hold, to the bit, what was collected one step before or behind them and
    nowhere else: a burn-in begins with a state of its own step, an older one of it, or none."""
    none, found = torch.zeros_like(spent), spent.clone()
    if stored.shape[2:] != recorded.shape[1:] or not bool(spent.any()):
        return none
    fresh = evidence.policy.fresh[key][:1]
    for row, step in spent.nonzero().tolist():
        held, here = stored[row, step : step + 1], int(sample.ids[row, step])
        places = same_values(held.expand_as(recorded), recorded).nonzero().flatten().tolist()
        beside = {here - 1, here + 1, *sample.ids[row, step + 1 : step + 2].tolist()}
        begins = bool(same_values(held, fresh.to(held)).any())
        found[row, step] = len(places) == 1 and places[0] in beside and not begins
    return found if 2 * int(found.sum()) > int(spent.sum()) else none


def _made_anew(
    evidence: Evidence, sample: Sample, key: Key, wrong: Tensor, stored: Tensor, recorded: Tensor
) -> Tensor:
    """``wrong``, inside of trajectories, where the state is neither one that was collected nor the
    initial one. Behind random steps, which no memory went along with, a burn-in that was seen in
    the script's own lines makes another state than acting had."""
    found = wrong & ~sample.trajectory_start()
    if stored.shape[2:] != recorded.shape[1:]:
        return torch.zeros_like(wrong)
    fresh = evidence.policy.fresh[key][:1]
    for row, step in found.nonzero().tolist():
        held = stored[row, step : step + 1]
        known = bool(same_values(held.expand_as(recorded), recorded).any())
        found[row, step] = not known and not bool(same_values(held, fresh.to(held)).any())
    return found


def _observed(
    key: Key,
    number: int,
    sample: Sample,
    wrong: Tensor,
    stored: Tensor,
    recorded: Tensor,
) -> Observation:
    row, step = wrong.nonzero()[0].tolist()
    fits = stored.shape[2:] == recorded.shape[1:]
    size = float(gap(stored[row, step], recorded[sample.ids[row, step]]).max()) if fits else 1.0
    return Observation(
        message=(
            f"{counted(int(wrong.sum()), 'slice', 'start')} from another {dotted(key)} than the"
            " trajectory had there"
        ),
        key=dotted(key),
        quantity=f"max abs difference of {dotted(key)}, replayed against collected",
        measured=size,
        on=f"training batch {number}",
        bound_formula="the same in the stored dtype, up to rounding",
        where=Where((number, row), step, first_step=step),
        cause=CAUSE,
        fix=FIX,
    )


RULE = Rule(
    code="RP504",
    name="stored-state-wrong",
    holds="every slice opens with its trajectory's state",
    severity=Severity.ERROR,
    stage=Stage.REPLAY,
    run=run,
    needs=(Stage.POLICY, Stage.REPLAY),
)
