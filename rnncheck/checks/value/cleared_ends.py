"""Ends of episodes that were collected and are none any more where they are trained on, and steps
that a time limit has cut and that are trained on as ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.estimator_calls import batches, written
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import each_sample, loss_of, run_loss
from rnncheck.checks.evidence.shown_next import shown_next
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.results.model import Stage, Where

_CUT: Key = ("next", "truncated")
_Found = tuple[int, Sample, Key, Tensor]
_Changes = Callable[[Evidence, Sample], list[tuple[Key, Tensor]]]
_Restored = Callable[[Sample, Key, Tensor], TensorDictBase]


@dataclass(frozen=True)
class Cleared:
    """``count`` terminated steps whose flag is false, where the estimator or the loss reads it:
    ``all_of_them``, or some that may have been chosen. A step is also taken for terminated where
    the batch shows the end of its episode next to it."""

    stage: Stage
    key: Key
    count: int
    all_of_them: bool
    where: Where


def cleared(evidence: Evidence) -> Cleared | None:
    """The first batch of the estimator or the loss that has lost ends; None where they would change
    nothing."""
    return _changed_flags(evidence, _lost)


def made_ends(evidence: Evidence) -> Cleared | None:
    """The same of steps that are marked as terminated, and were collected as cut short."""
    return _changed_flags(evidence, _made)


def _changed_flags(evidence: Evidence, changes: _Changes) -> Cleared | None:
    found = changed_entries(evidence, changes, _restored)
    if found is None:
        return None
    stage, number, sample, key, lost = found
    row, step = lost.nonzero()[0].tolist()
    left = bool((sample.rows.get(key).reshape(*lost.shape, -1).any(-1) & sample.known).any())
    own = shown_next(evidence, sample) == sample.ids.clamp_min(0)
    where = Where((number, row), step, first_step=step)
    alone = not left or not bool((own & lost).any())
    return Cleared(stage, key, int(lost.sum()), alone, where)


def changed_entries(
    evidence: Evidence, changes: _Changes, restored: _Restored
) -> tuple[Stage, int, Sample, Key, Tensor] | None:
    """The first batch, with its number, of the estimator or the loss that has such an entry, and at
    which steps ``[rows, steps]``; None where what they make of it ``restored`` is the same."""
    for stage, look in ((Stage.ADVANTAGE, _of_the_estimator), (Stage.LOSS, _of_the_loss)):
        try:
            found = look(evidence, changes, restored)
        except Unanswered:  # why it cannot be asked is told where it is judged
            continue
        if found is not None:
            return stage, *found
    return None


def _of_the_estimator(evidence: Evidence, changes: _Changes, restored: _Restored) -> _Found | None:
    for number, sample in enumerate(batches(evidence)):
        for key, lost in changes(evidence, sample):
            here, there = (
                written(evidence, sample, td) for td in (sample.td, restored(sample, key, lost))
            )
            if any(
                bool(bits_differ(here[name], there[name]).any()) for name in here.keys() & there
            ):
                return number, sample, key, lost
    return None


def _of_the_loss(evidence: Evidence, changes: _Changes, restored: _Restored) -> _Found | None:
    loss_of(evidence)
    for number, sample in each_sample(evidence):
        for key, lost in changes(evidence, sample):
            here, there = (
                run_loss(evidence, sample, td, per_element=False).total
                for td in (sample.td, restored(sample, key, lost))
            )
            if not torch.equal(here, there):
                return number, sample, key, lost
    return None


def _lost(evidence: Evidence, sample: Sample) -> list[tuple[Key, Tensor]]:
    """Flags of terminated steps, with where they were true and are not, ``[rows, steps]``."""
    found = [(key, was & ~given) for key, was, given in _flags(evidence, sample)]
    return [(key, lost) for key, lost in found if bool(lost.any())]


def _made(evidence: Evidence, sample: Sample) -> list[tuple[Key, Tensor]]:
    """The same where they were not true and are, though a time limit cut the episode there."""
    cut = sample.steps.column(_CUT)
    if cut is None:
        return []
    there = cut[shown_next(evidence, sample)].reshape(*sample.known.shape, -1).any(-1)
    flags = (*_flags(evidence, sample), *_flags(evidence, sample, of_agents=True))
    found = [(key, ~was & given & there) for key, was, given in flags]
    return [(key, made) for key, made in found if bool(made.any())]


def _flags(
    evidence: Evidence, sample: Sample, *, of_agents: bool = False
) -> Iterator[tuple[Key, Tensor, Tensor]]:
    """Flags of terminated steps as they were collected and are, ``[rows, steps]``; those ``of
    agents`` alone that the script made of the env's own."""
    for key in tensor_keys(sample.rows):
        column = sample.steps.column(key)
        if key[0] != "next" or key[-1] != "terminated" or (column is None) is not of_agents:
            continue
        column = sample.steps.column(("next", "terminated")) if of_agents else column
        if column is None:
            continue
        given = sample.rows.get(key)
        if given.dtype == torch.bool and (of_agents or given.shape[2:] == column.shape[1:]):
            both = column[shown_next(evidence, sample)], given
            was, now = (one.reshape(*sample.known.shape, -1).any(-1) for one in both)
            yield key, was & sample.known, now & sample.known


def _restored(sample: Sample, key: Key, lost: Tensor) -> TensorDictBase:
    rows = sample.rows.clone()
    flag = rows.get(key)
    wide = lost.reshape(*lost.shape, *[1] * (flag.ndim - 2))
    return rows.set(key, flag ^ wide).reshape(sample.td.shape)
