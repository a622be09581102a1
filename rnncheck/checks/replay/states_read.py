"""Which of a row's stored states a loss begins its pass with, told by those that move it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample, run_loss
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Observation, Unanswered
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage, Where


def opens_behind_the_step(evidence: Evidence) -> Observation | None:
    """A loss whose pass over the steps begins with the state that the first step of a row left: it
    reads that one, what is observed at the step, and not the state ahead of it."""
    if evidence.pipeline.loss is None:
        return None
    try:
        for number, sample in each_sample(evidence):
            at, keys = _inside(sample), _stored(evidence, sample)
            if keys and bool(at.any()) and _reads_behind(evidence, sample, at, keys):
                return _observed(keys[0], number, int(at[:, 0].nonzero()[0]))
    except Unanswered:  # a loss that raises is LS706's
        return None
    return None


def _inside(sample: Sample) -> Tensor:
    """First steps ``[rows, steps]`` of rows that begin inside of an episode."""
    found = torch.zeros_like(sample.valid)
    found[:, 0] = sample.known[:, 0]  # a sampler of slices flags them all the same
    return found & ~sample.trajectory_start()


def _stored(evidence: Evidence, sample: Sample) -> list[Key]:
    there = set(tensor_keys(sample.rows))
    return [key for key in evidence.policy.carry if {key, next_key(key)} <= there]


def _reads_behind(evidence: Evidence, sample: Sample, at: Tensor, keys: list[Key]) -> bool:
    base = run_loss(evidence, sample, per_element=False).total

    def moves(changed: Iterable[Key]) -> bool:
        other = changed_batch(sample, at, changed)
        return not torch.equal(run_loss(evidence, sample, other, per_element=False).total, base)

    shown = [key for key in observed(evidence, sample) if key[0] != "next"]
    return moves(map(next_key, keys)) and not moves(keys) and moves(shown)


def _observed(key: Key, number: int, row: int) -> Observation:
    behind = dotted(next_key(key))
    return Observation(
        stage=Stage.LOSS,
        message=(
            f"the loss begins its pass with {behind} of the first step of each row, which that step"
            f" left, and reads no {dotted(key)} of it"
        ),
        key=behind,
        quantity="whether the state ahead of a row's first step moves the loss, as that behind it",
        measured=1.0,
        on=f"training batch {number}",
        bound_formula="the state ahead of the first step alone",
        where=Where((number, row), 0, first_step=0),
        cause="the first step is run on a state in which it is remembered already",
        fix=f"begin with batch[{dotted(key)!r}][:, 0], the state ahead of the step",
    )
