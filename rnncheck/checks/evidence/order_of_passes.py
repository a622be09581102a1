"""Recurrent passes inside a loss of the user's own that run over steps in another order than they
were taken."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import copied, each_sample, loss_of, run_loss
from rnncheck.checks.evidence.succession import succession
from rnncheck.checks.evidence.traced_steps import traced
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.pipeline.instruments.module_calls import ModuleCall, ModuleCalls
from rnncheck.pipeline.keys import tensor_keys


@dataclass(frozen=True)
class Disorder:
    """In a pass, ``count`` ``of`` neighbours along time that do not follow each other."""

    number: int  # of the training batch
    count: int
    of: int
    row: int
    step: int


def disordered(evidence: Evidence) -> tuple[Disorder | None, int]:
    """The first such pass, and how many steps tell of their order. A loss of TorchRL's runs its
    networks over the batch as it is, and is not asked."""
    asked = 0
    if type(loss_of(evidence)).__module__.startswith("torchrl."):
        return None, asked
    for number, sample in each_sample(evidence):
        for position, one in enumerate(_timed(evidence, sample)):
            if one.trained and len(one.along) == 1:
                found = _judged(evidence, sample, number, position, one)
                asked += found.of
                if found.count * 2 > found.of:
                    return found, asked
    return None, asked


def _timed(evidence: Evidence, sample: Sample) -> list[ModuleCall]:
    with ModuleCalls(timing=True) as inside:
        run_loss(evidence, sample, loss=copied(loss_of(evidence)), per_element=False)
    return inside.passes


def _judged(
    evidence: Evidence, sample: Sample, number: int, position: int, one: ModuleCall
) -> Disorder:
    shown = traced(evidence, sample).get(position)
    if shown is None or len(shown.place) != one.shape.numel():
        return Disorder(number, 0, 0, 0, 0)
    lie = succession(shown, one.shape, sample)
    place = shown.place.reshape(one.shape)
    time, before = one.along[0], place.roll(1, one.along[0])
    inner = torch.ones_like(place, dtype=torch.bool)
    inner.select(time, 0).fill_(False)
    pairs = inner & (place >= 0) & (before >= 0) & ~_flagged(one, sample)
    broken = pairs & (before != place - 1) & ~lie.own
    first = int(place[broken][0]) if bool(broken.any()) else 0
    row, step = divmod(first, sample.valid.shape[1])
    return Disorder(number, int(broken.sum()), int(pairs.sum()), row, step)


def _flagged(one: ModuleCall, sample: Sample) -> Tensor:
    """Positions that begin anew."""
    flags = sample.steps.recording.subject.flags
    found = torch.zeros(one.shape, dtype=torch.bool)
    for key in flags:
        if key in tensor_keys(one.given):
            found |= one.given.get(key).reshape(*one.shape, -1).any(-1)
    return found
