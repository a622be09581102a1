"""Whether the last observation of each episode was recorded, or the next episode's first one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch
from rnncheck.checks.evidence.training_batches import collected
from rnncheck.checks.rule import Unanswered
from rnncheck.checks.value.estimates import ended
from rnncheck.checks.value.last_values import asked
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.recording.recording import Joint, Rows
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Where

_BEGINS = (Joint.AFTER_DONE, Joint.BEGINS)
_BY_CHANCE = 0.01  # how likely the ends may equal the starts without a fault


@dataclass(frozen=True)
class LastObservations:
    """``lost`` is the first end whose observation is the reset's; ``count`` ends were told apart.

    ``open`` ends equal a start as any start does; ``used`` of them are no terminations, so that a
    target reads the observation there.
    """

    lost: Where | None
    count: int
    open: int = 0
    used: int = 0


@dataclass(frozen=True)
class _End:
    where: Where
    same: bool  # what the policy reads is what the next episode begins with
    chance: float  # of that, where the end equalled any episode's start
    cleared: bool  # something else that starts differ in differs from the next start
    terminated: bool


def last_observations(evidence: Evidence) -> LastObservations:
    """Every recorded end that another episode follows.

    An env that shows one blank at its ends and its starts looks as if the reset's observation was
    kept: what starts differ in tells the two apart. Of an env that itself shows a start there, ends
    of the task do no harm: no target reads them. Nor do limits where none does.
    """
    if (lost := _lost_between(evidence)) is not None:
        return LastObservations(lost, 1)
    ends = list(_ends(evidence))
    if evidence.pipeline.shows_starts:
        read = any(not one.terminated for one in ends) and _reads_behind_limits(evidence)
        ends = [one for one in ends if read and not one.terminated]
    same = [one for one in ends if one.same]
    if 2 * len(same) <= len(ends):
        return LastObservations(None, len(ends))
    if _at_least(len(same), [one.chance for one in ends]) <= _BY_CHANCE:
        return LastObservations(same[0].where, len(ends))
    unclear = [one for one in same if not one.cleared]
    used = sum(not one.terminated for one in unclear)
    return LastObservations(None, len(ends) - len(unclear), len(unclear), used)


def _at_least(count: int, chances: Sequence[float]) -> float:
    """How likely at least so many of what is as likely as this come true together: the tail of
    their Poisson binomial distribution."""
    distribution = np.ones(1)
    for chance in chances:
        distribution = np.convolve(distribution, [1 - chance, chance])
    return float(distribution[count:].sum())


def _ends(evidence: Evidence) -> Iterator[_End]:
    recording = evidence.recording
    read = [key for key in recording.handed_on if key in evidence.policy.reads]
    other = [key for key in recording.handed_on if key not in read]
    starts = {key: _starts(recording.batches, key) for key in recording.handed_on}
    for number, rows in enumerate(recording.batches):
        if not read or all(_constant(rows.data.get(key)) for key in read):
            continue
        for row, step in ((rows.joints == Joint.AFTER_DONE) & rows.valid)[:, 1:].nonzero().tolist():
            if any(_resets_alone(rows, read, row, one) for one in (step, step + 1)):
                continue
            differs = {key: _differs(rows, key, row, step) for key in recording.handed_on}
            shown = {key: rows.data.get(key)[row, step + 1] for key in read}
            yield _End(
                Where((number, row), step, first_step=step),
                not any(differs[key] for key in read),
                min(
                    max(_share(starts[key], shown[key]), _often(evidence, key, shown))
                    for key in read
                ),
                any(differs[key] and not _alike(starts[key]) for key in other),
                _is_terminated(rows, row, step),
            )


def _resets_alone(rows: Rows, read: Sequence[Key], row: int, step: int) -> bool:
    """Whether a step between two starts shows what the episode before it ended with: the env begins
    anew with a step of its own, whose action it does not read."""
    if step == 0 or step + 1 >= rows.joints.shape[1]:
        return False
    around = (rows.joints[row, step : step + 2] == Joint.AFTER_DONE).all()
    return bool(around) and not any(_differs(rows, key, row, step - 1) for key in read)


def _reads_behind_limits(evidence: Evidence) -> bool:
    """Whether an estimate or the loss moves with what is observed behind a step that a limit
    cut."""
    try:
        for _, sample, made in asked(evidence):
            cut = ended(sample, "done") & ~ended(sample, "terminated") & sample.valid
            seen = [key for key in observed(evidence, sample) if key[0] == "next"]
            changed = changed_batch(sample, cut, seen)
            if bool(cut.any()) and not torch.equal(made(sample.td), made(changed)):
                return True
    except Unanswered:
        return True
    return False


def _lost_between(evidence: Evidence) -> Where | None:
    """The first of the episodes that end with the rows of a batch, where all of them show what the
    next batch's rows begin with, and no chance does that."""
    recording = evidence.recording
    read = [key for key in recording.handed_on if key in evidence.policy.reads]
    for number, (rows, after) in enumerate(itertools.pairwise(recording.batches)):
        if not read or len(rows.valid) != len(after.valid):
            continue
        others = [one for one in recording.batches if one is not after]
        starts = {key: _starts(others, key) for key in read}
        ends, chance, same = _last_steps(rows), 1.0, True
        if evidence.pipeline.shows_starts:
            ends = [at for at in ends if not _is_terminated(rows, *at)]
        for row, step in ends if _all_begin(after) else ():
            first = {key: after.data.get(key)[row, 0] for key in read}
            last = {key: rows.data.get(next_key(key))[row, step] for key in read}
            same = same and not any(bool(bits_differ(last[k], first[k]).any()) for k in read)
            chance *= min(
                max(_share([*starts[key], first[key]], first[key]), _often(evidence, key, first))
                for key in read
            )
        if ends and same and chance <= _BY_CHANCE:
            row, step = ends[0]
            return Where((number, row), step, first_step=step)
    return None


def _last_steps(rows: Rows) -> list[tuple[int, int]]:
    """Row and step of the episodes that end with their row."""
    return [
        (row, step)
        for row, step in rows.valid.nonzero().tolist()
        if _is_last(rows, row, step) and _flagged(rows, "done", row, step)
    ]


def _all_begin(rows: Rows) -> bool:
    return bool(torch.isin(rows.joints[:, 0], torch.tensor([int(one) for one in _BEGINS])).all())


def ends_of_rows(evidence: Evidence) -> int:
    """Ends that no recorded step follows, as of rollouts that are whole episodes, with an
    observation that none was seen to begin with."""
    recording = evidence.recording
    read = [key for key in recording.handed_on if key in evidence.policy.reads]
    starts = {key: _starts(recording.batches, key) for key in read}
    ends = [(rows, *at) for rows in recording.batches for at in _last_steps(rows)]
    return sum(
        any(_is_none_of(starts[key], rows.data.get(next_key(key))[row, step]) for key in read)
        for rows, row, step in ends
    )


def _is_none_of(starts: list[Tensor], last: Tensor) -> bool:
    return all(bool(bits_differ(one, last).any()) for one in starts)


def _is_last(rows: Rows, row: int, step: int) -> bool:
    return step + 1 == rows.valid.shape[1] or not bool(rows.valid[row, step + 1])


def _differs(rows: Rows, key: Key, row: int, step: int) -> bool:
    last, first = rows.data.get(next_key(key))[row, step], rows.data.get(key)[row, step + 1]
    return bool(bits_differ(last, first).any())


def _starts(batches: list[Rows], key: Key) -> list[Tensor]:
    """What episodes begin with, in the order in which they were recorded."""
    return [
        rows.data.get(key)[row, step]
        for rows in batches
        for row, step in rows.valid.nonzero().tolist()
        if rows.joints[row, step] in _BEGINS
    ]


def _share(starts: list[Tensor], start: Tensor) -> float:
    """The share of the other starts that are this one; 1 where there is no other."""
    alike = sum(not bool(bits_differ(one, start).any()) for one in starts)
    return (alike - 1) / (len(starts) - 1) if len(starts) > 1 else 1.0


def _often(evidence: Evidence, key: Key, shown: dict[Key, Tensor]) -> float:
    """The share of the other recorded steps that show the same: of a few starts none may be alike,
    where there are only a few tokens."""
    column = collected(evidence).columns.get(key)
    if column is None or len(column) < 2:
        return 1.0
    alike = int(
        (~bits_differ(column, shown[key].expand_as(column)).reshape(len(column), -1).any(1)).sum()
    )
    return max(0, alike - 1) / (len(column) - 1)


def _alike(starts: list[Tensor]) -> bool:
    return not starts or _share(starts, starts[0]) == 1.0


def _constant(value: Tensor) -> bool:
    return not bool(bits_differ(value, value[:1, :1].expand_as(value)).any())


def _is_terminated(rows: Rows, row: int, step: int) -> bool:
    return _flagged(rows, "terminated", row, step)


def _flagged(rows: Rows, name: str, row: int, step: int) -> bool:
    flag: Tensor | None = rows.data.get(("next", name), None)
    return flag is not None and bool(flag[row, step].any())
