"""A terminated step's target uses the next episode; the terminal observation is lost.

Checks
    The observations after terminated steps (the next observation there and everything behind it)
    are changed: the target of the terminated step must stay the same. After truncated steps only
    what lies behind the end is changed: the target may use the next observation, but not the next
    episode. For a loss that makes its own target, the reward of the terminated steps is moved: by
    how much that moves the loss tells how far off their target is, and it must not depend on their
    next observation. And the next observation of a done step must not be the first observation of
    the next episode.

Why it matters
    A target that looks over a terminal state rewards the policy for an episode that it has not
    played yet.

Says nothing when
    no collected episode ends, the env's observation never changes, or neither an estimator nor a
    loss reads rewards.

Fix
    Pass ``("next", "terminated")`` through, keep the terminal observation under ``("next", ...)``,
    and take the next value at an episode's end from it, not from the row's next entry.

Example
    td = env.step(td); td["next", "observation"]     # before any reset
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed, segments_of, through_rows
from rnncheck.checks.evidence.estimator_calls import batches
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample, loss_of, run_loss
from rnncheck.checks.evidence.loss_isolation import loss_leaks
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule, Unanswered
from rnncheck.checks.value.estimates import ended, per_step
from rnncheck.checks.value.estimator_isolation import statistics
from rnncheck.numerics.affine import moved_as_one
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.recording.recording import Joint
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Severity, Stage, Where

_ROUNDING = 1e-5  # of the largest entry: vectorised sums of rewards round over the whole row
REWARD = ("next", "reward")
TARGETS = ("value_target", "advantage")


def run(evidence: Evidence) -> Judgement:
    """The recorded ends, then the estimator's targets there, then the loss's."""
    lost, count = lost_observations(evidence)
    if lost is not None:
        return Judgement((_lost(lost),), count)
    for look in (_estimator, _loss):
        finding, compared = look(evidence)
        count += compared
        if finding is not None:
            return Judgement((finding,), count)
    if not count:
        raise CouldNotLook("no collected episode ends")
    return Judgement((), count, f"{count} ends of episodes and targets there")


def _estimator(evidence: Evidence) -> tuple[Observation | None, int]:
    compared = 0
    for number, sample in enumerate(_batches(evidence)):
        terminal = ended(sample, "terminated")
        for ends, kind in (
            (terminal, "terminated"),
            (ended(sample, "done") & ~terminal, "truncated"),
        ):
            if not bool(ends.any()):
                continue
            compared += int(ends.sum())
            where = looks_over(evidence, sample, number, ends, own=kind == "terminated")
            if where is not None:
                return _looks_over(where, kind), compared
    return None, compared


def _loss(evidence: Evidence) -> tuple[Observation | None, int]:
    compared = 0
    for number, sample in _loss_samples(evidence):
        ends = ended(sample, "terminated")
        if REWARD not in tensor_keys(sample.td) or not bool(ends.any()):
            continue
        try:
            moved, reads = target_moves(evidence, sample, ends)
        except Unanswered:  # a loss that raises is LS706's
            break
        compared += int(ends.sum()) * reads
        if moved and not loss_leaks(evidence, sample)[0]:
            row, step = ends.nonzero()[0].tolist()
            return _bootstraps(Where((number, row), step, first_step=step), moved), compared
    return None, compared


def _loss_samples(evidence: Evidence) -> list[tuple[int, Sample]]:
    try:
        loss_of(evidence)
        return each_sample(evidence)
    except Unanswered:
        return []


def target_moves(evidence: Evidence, sample: Sample, ends: Tensor) -> tuple[float, bool]:
    """How much the loss's answer to other rewards at ``ends`` changes with the next observation
    there; 0 for rounding.

    For a squared error the answer is the error itself; terms that read no reward cancel. Also says
    whether the loss reads the rewards at all.
    """
    keys = [key for key in observed(evidence, sample) if key[0] == "next"]
    answers, scale = list[float](), 1e-6
    for batch in (sample.td, changed_batch(sample, ends, keys)):
        paid = batch.clone()
        reward = paid.get(REWARD).reshape(*sample.rows.shape, -1)
        more = reward + ends.unsqueeze(-1) * (1 + reward.abs().max())
        paid.set(REWARD, more.reshape(paid.get(REWARD).shape))
        totals = [
            float(run_loss(evidence, sample, td, per_element=False).total.detach())
            for td in (paid, batch)
        ]
        answers.append(totals[0] - totals[1])
        scale = max(scale, *map(abs, totals))
    size = abs(answers[0] - answers[1])
    return (size if size > _ROUNDING * scale else 0.0), answers[0] != 0


def _batches(evidence: Evidence) -> list[Sample]:
    try:
        return batches(evidence)
    except Unanswered:
        return []


def lost_observations(evidence: Evidence) -> tuple[Where | None, int]:
    """A done step whose next observation is the reset's, and how many ends were looked at."""
    recording, count, same = evidence.recording, 0, list[Where]()
    keys = [key for key in recording.steady if key in evidence.policy.reads]
    for number, rows in enumerate(recording.batches):
        for row, step in ((rows.joints == Joint.AFTER_DONE)[:, 1:]).nonzero().tolist():
            pairs = [
                (rows.data.get(next_key(k))[row, step], rows.data.get(k)[row, step + 1])
                for k in keys
            ]
            if not pairs or all(_constant(rows.data.get(k)) for k in keys):
                continue
            count += 1
            if not any(bool(bits_differ(a, b).any()) for a, b in pairs):
                same.append(Where((number, row), step, first_step=step))
    return (same[0] if same and 2 * len(same) > count else None), count


def _constant(value: Tensor) -> bool:
    return not bool(bits_differ(value, value[:1, :1].expand_as(value)).any())


def looks_over(
    evidence: Evidence, sample: Sample, number: int, ends: Tensor, *, own: bool
) -> Where | None:
    """The first of ``ends`` whose target changes with what lies behind it; every other segment at a
    time.

    Where ``own``, its next observation is behind it as well.
    """
    base, alike = per_step(evidence, sample, sample.td), statistics(evidence, sample)
    segments = through_rows(segments_of(sample))
    for parity in (0, 1):
        asked = ends & (segments_of(sample) % 2 == parity)
        behind = torch.zeros_like(asked)
        behind[:, 1:] = asked[:, :-1]
        at = asked if own else torch.zeros_like(asked)
        others = ~torch.isin(segments, segments[asked | behind]) & sample.valid
        after = per_step(evidence, sample, _changed_behind(evidence, sample, at, behind))
        for name in TARGETS:
            if name not in base or name not in after:
                continue
            old, new = base[name], after[name]
            moved = bool((bits_differ(old, new).flatten(2).any(-1) & others).any())
            if (name in alike or moved) and not (moved and _stands_out(old, new, others, asked)):
                continue
            limit = _ROUNDING * float(old.abs().max())
            differ = (gap(old, new).flatten(2).amax(-1) > limit) & asked
            if bool(differ.any()):
                row, step = differ.nonzero()[0].tolist()
                return Where((number, row), step, first_step=step)
    return None


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


def _stands_out(old: Tensor, new: Tensor, others: Tensor, asked: Tensor) -> bool:
    """Of an entry that is normalised over the batch: what belongs to other segments is moved and
    scaled as one, and ``asked`` otherwise."""
    as_one = moved_as_one(old, new, others, _ROUNDING)
    return as_one and not moved_as_one(old, new, others | asked, _ROUNDING)


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
        key="next.terminated",
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
