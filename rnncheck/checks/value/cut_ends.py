"""Ends that a sampler put into rows which it cut inside an episode, taken for the episode's own."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample, loss_of
from rnncheck.checks.evidence.rewards import reward_keys
from rnncheck.checks.evidence.shown_next import shown_next
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Observation, Unanswered
from rnncheck.checks.value.estimates import ended
from rnncheck.checks.value.terminal_targets import answer_moves, some_steps
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.results.model import Stage, Where

_DONE = ("next", "done")
_LEAST = 2  # steps that must tell: chosen


def cut_short(evidence: Evidence) -> Observation | None:
    """A loss whose targets use what is observed next, and do not at steps behind which the
    sampler's cut alone is: their value there is taken for 0."""
    try:
        loss_of(evidence)
        for number, sample in each_sample(evidence):
            cut = _cut(evidence, sample)
            if int(cut.sum()) >= _LEAST and _stops(evidence, sample, cut):
                row, step = cut.nonzero()[0].tolist()
                return _observed(Where((number, row), step, first_step=step), int(cut.sum()))
    except Unanswered:  # a loss that raises is LS706's
        return None
    return None


def _cut(evidence: Evidence, sample: Sample) -> Tensor:
    """Steps ``[rows, steps]`` that are done in the batch, and were not where they were seen."""
    column = sample.steps.column(_DONE)
    if column is None or not reward_keys(sample.td):
        return torch.zeros_like(sample.known)
    was = column[shown_next(evidence, sample)].reshape(*sample.known.shape, -1).any(-1)
    return ended(sample, "done") & ~was & sample.known & ~ended(sample, "terminated")


def _stops(evidence: Evidence, sample: Sample, cut: Tensor) -> bool:
    """Whether the loss answers to rewards there, and what is observed next does not enter that, as
    it does at steps that go on, and would there without the ends."""
    keys = [key for key in observed(evidence, sample) if key[0] == "next"]
    inside = some_steps(sample)
    if not keys or not bool(inside.any()):
        return False
    here = [sample.td, changed_batch(sample, inside, keys)]
    if not answer_moves(evidence, sample, here, inside).size:
        return False
    batches = [sample.td, changed_batch(sample, cut, keys)]
    there = answer_moves(evidence, sample, batches, cut, fine=True)
    if not there.told or there.size:
        return False
    without = [_without_ends(sample, td, cut) for td in batches]
    return bool(answer_moves(evidence, sample, without, cut, fine=True).size)


def _without_ends(sample: Sample, td: TensorDictBase, cut: Tensor) -> TensorDictBase:
    """The batch in which no episode ends there."""
    rows = td.reshape(sample.rows.shape).clone()
    for key in (_DONE, ("next", "truncated")):
        if key in tensor_keys(rows):
            flag = rows.get(key)
            rows.set(key, flag & ~cut.reshape(*cut.shape, *[1] * (flag.ndim - 2)))
    return rows.reshape(sample.td.shape)


def _observed(where: Where, count: int) -> Observation:
    return Observation(
        stage=Stage.LOSS,
        message=(
            f"the loss takes the ends of slices for ends of episodes: the target of {count} steps"
            " that go on is their reward alone"
        ),
        key="next.done",
        quantity="steps whose episode goes on, and whose target has no next value",
        measured=float(count),
        bound_formula="none where next values enter the targets of other steps",
        where=where,
        cause=(
            "the sampler marks the last step of a slice as truncated and done, and the loss takes"
            " the next value away where ('next', 'done') is true"
        ),
        fix=(
            "read ('next', 'terminated') in its place, which is true where an episode is over:"
            " target = reward + gamma * (~terminated).float() * next_value"
        ),
    )
