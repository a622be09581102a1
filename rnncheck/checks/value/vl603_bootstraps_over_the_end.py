"""A terminated step's target uses the next episode; the terminal observation is lost.

Checks
    The observations after terminated steps (the next observation there and everything behind it)
    are changed: the target of the terminated step must stay the same. After truncated steps only
    what lies behind the end is changed: the target may use the next observation, but not the next
    episode. For a loss that makes its own target, the reward of the terminated steps is moved: by
    how much that moves the loss tells how far off their target is, and it must not depend on their
    next observation; smooth L1, Huber and L1 losses are squared errors meanwhile. Nor must what the
    network gives once more than there are steps be added to the reward of an end. Where no step is
    terminated, some are marked so; for an estimator where none ends at all. A terminated step must
    still be marked where it is estimated and trained on: where only some are not, it is a warning,
    and so are steps that a time limit cut and that are marked as terminated there. So are those at
    which the loss's target has nothing of what is observed next, and has once done is false.
    And the next observation of a done step must not be the first observation of the next episode,
    unless episodes begin so much alike that this says nothing; where no step was recorded behind
    it, none of the first observations that were seen; nor may it be put in its place on the way to
    the estimator or the loss. What a loop adds to the reward where a time
    limit cuts an episode must not be a value of what the next one begins with, nor one that starts
    from the state ahead of the step, or from zeros.

Why it matters
    A target that looks over a terminal state rewards the policy for an episode that it has not
    played yet.

Says nothing when
    no collected episode ends, a loop over env.step saw them all cut by limits of time, the env's
    observation never changes, neither an estimator nor a loss reads rewards, or rewards are what
    the loss predicts (a world model). Where an env tells of all ends by one flag, and its episodes
    are equally long, it is a warning. A sum of rewards that goes on over the ends is VL601's.

Fix
    Pass ``("next", "terminated")`` through, keep the terminal observation under ``("next", ...)``,
    and take the next value at an episode's end from it, not from the row's next entry.

Example
    td = env.step(td); td["next", "observation"]     # before any reset
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed, segments_of, through_rows
from rnncheck.checks.evidence.estimator_calls import batches
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample, loss_of
from rnncheck.checks.evidence.loss_isolation import loss_leaks
from rnncheck.checks.evidence.rewards import reward_keys
from rnncheck.checks.evidence.target_names import target_names
from rnncheck.checks.evidence.training_batches import Sample, make_sample
from rnncheck.checks.rule import (
    CouldNotLook,
    Deferred,
    Judgement,
    NotApplicable,
    Observation,
    Rule,
    Unanswered,
    weightiest,
)
from rnncheck.checks.value.added_at_ends import added_at_ends
from rnncheck.checks.value.added_values import added_values
from rnncheck.checks.value.begun_next import begun_next
from rnncheck.checks.value.cleared_ends import Cleared, cleared, made_ends
from rnncheck.checks.value.estimates import ended, per_step
from rnncheck.checks.value.estimator_isolation import estimator_leaks, rewards_run_on, statistics
from rnncheck.checks.value.last_observations import (
    LastObservations,
    ends_of_rows,
    last_observations,
)
from rnncheck.checks.value.terminal_targets import (
    PREDICTED,
    asked_ends,
    next_episode_moves,
    some_steps,
    target_moves,
    unpaid_targets,
    with_ends,
)
from rnncheck.checks.value.time_limits import limits_taken_for_ends
from rnncheck.numerics.affine import moved_as_one
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.pipeline.keys import dotted
from rnncheck.pipeline.recording.ends_by import EndsBy
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where

TERMINATED = "next.terminated"
ONE_LENGTH = (
    "the env's one flag for all ends came at the same step of every episode: where that is a limit"
    " of time, this is a choice; where it is an end, the next value is not left out"
)
LIMITS_ALONE = ": none ended by itself, and the target leaves nothing out"
_ROUNDING = 1e-5  # of the largest entry: vectorised sums of rewards round over the whole row
_UNPAID = (
    "the loss moves with what is observed behind terminated steps, and with no reward: it could not"
    " be seen where its rewards come from, and nothing else tells what its targets are"
)
_COME = {
    Stage.ADVANTAGE: "come to the estimator",
    Stage.LOSS: "come to the loss",
}


@dataclass(frozen=True)
class _Look:
    """What one look found, at how many ends, and what kept it from telling of others."""

    finding: Observation | None = None
    compared: int = 0
    untold: tuple[Unanswered, ...] = ()


def run(evidence: Evidence) -> Judgement:
    """The recorded ends, then the estimator's targets there, then the loss's."""
    last = last_observations(evidence)
    if last.lost is not None:
        return Judgement((_lost(last.lost),), last.count)
    begun = begun_next(evidence)
    if begun is not None:
        stage, where, ends = begun
        return Judgement((replace(_lost(where), stage=stage),), ends)
    lost = cleared(evidence)
    if lost is not None:
        severity = None if lost.all_of_them else Severity.WARNING  # a limit may be taken back
        return Judgement((_cleared(lost),), lost.count, severity=severity)
    elsewhere, valued = added_values(evidence)
    if elsewhere is not None:
        return Judgement((elsewhere,), valued + 1)
    count, untold, kept = last.count + valued, list[Unanswered](), ""
    for look in (_estimator, _loss):
        found = look(evidence)
        count += found.compared
        untold += found.untold
        if found.finding is None:
            continue
        if evidence.pipeline.ends_by is not EndsBy.LIMITS or found.finding.key != TERMINATED:
            return _judged(evidence, found.finding, count)
        kept = LIMITS_ALONE
    made = made_ends(evidence)
    if made is not None:  # a choice, where the task ends with its time
        return Judgement((_made(made),), count + made.count, severity=Severity.WARNING)
    taken = limits_taken_for_ends(evidence)
    if taken is not None:
        return Judgement((taken[0],), count + taken[1], severity=Severity.WARNING)
    if last.used or (last.open and not count):
        untold.append(_blank(last))
    if why := weightiest(untold):
        raise why
    count = count or ends_of_rows(evidence)
    if not count:
        raise CouldNotLook("no collected episode ends")
    return Judgement((), count, f"{counted(count, 'end')} of episodes and targets there{kept}")


def _judged(evidence: Evidence, found: Observation, count: int) -> Judgement:
    """An env that tells of ends by one flag, at one length of all episodes, may end them by a limit
    of time: to take the next value is right then."""
    if found.key != TERMINATED or evidence.pipeline.ends_by is not EndsBy.ONE_FLAG:
        return Judgement((found,), count)
    return Judgement((replace(found, cause=ONE_LENGTH),), count, severity=Severity.WARNING)


def _blank(last: LastObservations) -> CouldNotLook:
    return CouldNotLook(
        f"{counted(last.open, 'episode')} ended with what the next one began with, as other"
        " episodes do: nothing tells whether the terminal observation is lost"
    )


def _estimator(evidence: Evidence) -> _Look:
    compared, untold = 0, dict[str, Unanswered]()
    try:
        samples = batches(evidence)
    except NotApplicable:
        return _Look()
    except Unanswered as why:
        return _Look(untold=(why,))
    for number, sample in enumerate(samples):
        terminal = ended(sample, "terminated")
        for ends, kind in (
            (terminal, "terminated"),
            (ended(sample, "done") & ~terminal, "truncated"),
        ):
            where, told = looks_over(evidence, sample, number, ends, own=kind == "terminated")
            compared += told
            if where is not None and _only_sums(evidence, sample, number, terminal):
                said = "a sum of rewards goes on over the ends, whatever is observed next there"
                return _Look(None, compared, (Deferred(said, "VL601"),))
            if where is not None:
                return _Look(_looks_over(where, kind), compared)
            if told < int(ends.sum()):
                kept = _untold(evidence, sample)
                untold[str(kept)] = kept
    if not compared and not untold:
        compared = _marked_ends(evidence, samples)
    left = [why for why in untold.values() if isinstance(why, Deferred) or not compared]
    return _Look(None, compared, tuple(left))


def _marked_ends(evidence: Evidence, samples: Iterable[Sample]) -> int:
    """Where no episode ends in what is estimated: of how many steps, marked as terminated, the
    target stops looking at what lies behind them. Where it does not, it may take its ends from
    elsewhere, which is no fault."""
    for number, sample in enumerate(samples):
        ends = some_steps(sample)
        looked = looks_over(evidence, sample, number, ends, own=True)[0] is not None
        marked = make_sample(evidence, with_ends(sample, sample.td, ends))
        where, told = looks_over(evidence, marked, number, ends, own=True)
        if looked and where is None and told:
            return told
    return 0


def _only_sums(evidence: Evidence, sample: Sample, number: int, terminal: Tensor) -> bool:
    """The next trajectory's rewards reach the targets, and the next observation of the terminated
    steps alone does not."""
    if not rewards_run_on(evidence, sample):
        return False
    return looks_over(evidence, sample, number, terminal, own=True, beyond=False)[0] is None


def _untold(evidence: Evidence, sample: Sample) -> Unanswered:
    if _coupled(evidence, sample):
        return Deferred("targets change with other segments, whatever stands at an end", "VL601")
    return CouldNotLook(
        "every target moves with the batch: none tells what stands at the end of its episode"
    )


def _loss(evidence: Evidence) -> _Look:
    compared = 0
    try:
        loss_of(evidence)
        samples = each_sample(evidence)
    except NotApplicable:
        return _Look()
    except Unanswered as why:
        return _Look(untold=(why,))
    for number, sample in samples:
        for ask in (_terminal, _next_episode) if reward_keys(sample.td) else ():
            try:
                found = ask(evidence, sample, number) or _Look()
            except Unanswered:  # a loss that raises is LS706's
                return _Look(None, compared)
            compared += found.compared
            if found.finding is not None or found.untold:
                return replace(found, compared=compared)
    return _Look(None, compared)


def _terminal(evidence: Evidence, sample: Sample, number: int) -> _Look | None:
    """The target of terminated steps; None where it tells nothing."""
    ends = asked_ends(evidence, sample)
    if not bool(ends.any()):
        return None
    moves = target_moves(evidence, sample, ends)
    if moves.predicted:
        return _Look(untold=(NotApplicable(PREDICTED),))
    if moves.size:
        if loss_leaks(evidence, sample)[0]:
            said = "the loss changes with other segments, whatever stands at an end"
            return _Look(untold=(Deferred(said, "LS701"),))
        return _Look(_bootstraps(_first_of(number, ends), moves.size))
    if moves.told and (added := added_at_ends(evidence, sample, number)) is not None:
        return _Look(added)
    if not moves.told and unpaid_targets(evidence, sample):
        return _Look(untold=(CouldNotLook(_UNPAID),))
    return _Look(compared=int(ends.sum())) if moves.told else None


def _next_episode(evidence: Evidence, sample: Sample, number: int) -> _Look | None:
    """The target of steps that end an episode, as if they were truncated, where some are, and are
    followed by the next in their row."""
    ends = ended(sample, "done")
    ends[:, :-1] &= sample.known[:, 1:] & ~sample.follows[:, 1:]
    ends[:, -1] = False
    if not bool(ends.any()) or not bool(ended(sample, "truncated").any()):
        return None
    # Of every other episode: the next one's own answer moves with what it begins with.
    segments = segments_of(sample)
    ends &= segments % 2 == segments[ends].min() % 2
    moves = next_episode_moves(evidence, sample, ends)
    if moves.size:
        found = _looks_over(_first_of(number, ends), "truncated")
        return _Look(replace(found, stage=Stage.LOSS))
    return _Look(compared=int(ends.sum())) if moves.told else None


def _first_of(number: int, ends: Tensor) -> Where:
    row, step = ends.nonzero()[0].tolist()
    return Where((number, row), step, first_step=step)


def looks_over(
    evidence: Evidence,
    sample: Sample,
    number: int,
    ends: Tensor,
    *,
    own: bool,
    beyond: bool = True,
) -> tuple[Where | None, int]:
    """The first of ``ends`` whose target changes with what lies behind it, and for how many of them
    a target tells; every other segment at a time.

    Where ``own``, its next observation is behind it as well; without ``beyond`` that alone is.
    """
    base, told = per_step(evidence, sample, sample.td), 0
    segments = through_rows(segments_of(sample))
    for parity in (0, 1):
        asked = ends & (segments_of(sample) % 2 == parity)
        if not bool(asked.any()):
            continue
        behind = torch.zeros_like(asked)
        behind[:, 1:] = asked[:, :-1] & beyond
        at = asked if own else torch.zeros_like(asked)
        others = ~torch.isin(segments, segments[asked | behind]) & sample.valid
        after = per_step(evidence, sample, _changed_behind(evidence, sample, at, behind))
        names = target_names(evidence, sample)
        pairs = [(name, base[name], after[name]) for name in names if name in base.keys() & after]
        looks = [_changes(evidence, sample, pair, others, asked) for pair in pairs]
        known = [differ for differ in looks if differ is not None]
        told += int(asked.sum()) if known or not pairs else 0
        for differ in known:
            if bool(differ.any()):
                row, step = differ.nonzero()[0].tolist()
                return Where((number, row), step, first_step=step), told
    return None, told


def _changes(
    evidence: Evidence,
    sample: Sample,
    target: tuple[str, Tensor, Tensor],
    others: Tensor,
    asked: Tensor,
) -> Tensor | None:
    """Where in ``asked`` the target changes; None where others change with it, so that this does
    not tell."""
    name, old, new = target
    limit = _ROUNDING * float(old.abs().max())
    old, new = (one.reshape(*asked.shape, -1) for one in (old, new))
    differ = (gap(old, new).amax(-1) > limit) & asked
    if not bool(differ.any()):
        return differ
    moved = bool((bits_differ(old, new).any(-1) & others).any())
    if moved and moved_as_one(old, new, others, _ROUNDING):  # normalised over the batch
        return differ & (not moved_as_one(old, new, others | asked, _ROUNDING))
    told = bool(((old != 0).any(-1) & others).any()) or not _coupled(evidence, sample)
    return differ if told and not moved and name not in statistics(evidence, sample) else None


def _coupled(evidence: Evidence, sample: Sample) -> bool:
    return bool(estimator_leaks(evidence, sample)[0])


def _changed_behind(
    evidence: Evidence, sample: Sample, asked: Tensor, behind: Tensor
) -> TensorDictBase:
    """The batch with other next observations at ``asked`` and other observations at ``behind``."""
    keys = observed(evidence, sample)
    changed = changed_batch(sample, asked, [key for key in keys if key[0] == "next"])
    again = changed_batch(sample, behind, [key for key in keys if key[0] != "next"])
    for key in keys:
        if key[0] != "next":
            changed.set(key, again.get(key))
    return changed


def _lost(where: Where) -> Observation:
    return _observed(
        Stage.COLLECT,
        where,
        message=(
            "the next observation of done steps is the first one of the next episode: the terminal"
            " one is lost"
        ),
        quantity="done steps without their terminal observation",
        cause="the reset was written over the step's own next entries",
        fix="store ('next', observation) before the env is reset",
        key="next.observation",
    )


def _cleared(lost: Cleared) -> Observation:
    name = dotted(lost.key)
    return _observed(
        lost.stage,
        lost.where,
        message=(f"{counted(lost.count, 'terminated step', _COME[lost.stage])} with {name} false"),
        quantity=f"steps whose {name} was true when they were collected",
        measured=float(lost.count),
        cause="the flag is cleared, or taken from elsewhere, on its way through the script",
        fix=f"leave {name} as it was collected: it says that nothing follows",
        key=name,
    )


def _made(made: Cleared) -> Observation:
    name = dotted(made.key)
    return _observed(
        made.stage,
        made.where,
        message=(
            f"{counted(made.count, 'step')} that a time limit cut {_COME[made.stage]} with {name}"
            " true: nothing is expected behind them"
        ),
        quantity=f"truncated steps whose {name} was false when they were collected",
        measured=float(made.count),
        cause="the flag is set, or taken from done, on its way through the script",
        fix=f"leave {name} as it was collected; a task that ends with its time may show that time",
        key=name,
    )


def _looks_over(where: Where, kind: str) -> Observation:
    over = kind == "terminated"
    return _observed(
        Stage.ADVANTAGE,
        where,
        message=f"the target of a {kind} step changes with what lies behind the end of its episode",
        quantity="targets that look over an episode's end",
        cause=(
            "the estimator does not see ('next', 'terminated')"
            if over
            else (
                "the next value there is the next episode's first one: the terminal observation is"
                " lost"
            )
        ),
        fix=(
            "target = reward + gamma * (~terminated).float() * next_value, with"
            " ('next', 'terminated') of the batch"
            if over
            else (
                "evaluate ('next', observation) at the ends, or shift the values inside episodes"
                " only"
            )
        ),
        key="value_target",
    )


def _bootstraps(where: Where, moved: float) -> Observation:
    return _observed(
        Stage.LOSS,
        where,
        message="the loss's target of terminated steps changes with their next observation",
        quantity="change of the loss's answer to other rewards at terminated steps",
        measured=moved,
        cause="the next value is not multiplied by the complement of ('next', 'terminated')",
        fix="target = reward + gamma * (~terminated).float() * next_value",
        key=TERMINATED,
    )


def _observed(
    stage: Stage,
    where: Where,
    *,
    message: str,
    quantity: str,
    cause: str,
    fix: str,
    key: str,
    measured: float = 1.0,
) -> Observation:
    return Observation(
        stage=stage,
        message=message,
        key=key,
        quantity=quantity,
        measured=measured,
        bound_formula="none beyond 1e-5 of the largest target or loss",
        where=where,
        cause=cause,
        fix=fix,
    )


RULE = Rule(
    code="VL603",
    name="bootstraps-over-the-end",
    holds="no estimate bootstraps over the end of an episode",
    severity=Severity.ERROR,
    stage=Stage.ADVANTAGE,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
)
