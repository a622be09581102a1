"""Where a training batch joins steps that are not neighbours in time, and whether it says so."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rnncheck.checks.evidence import Evidence
from rnncheck.checks.training import Sample, samples
from rnncheck.pipeline.held import seam
from rnncheck.results.model import Where

SHUFFLED = 2.0  # mean length of a stretch of true neighbours below which the steps are taken to be shuffled


@dataclass(frozen=True)
class Joins:
    """Unmarked joins of one training batch, ``[rows, steps]`` each."""

    number: int
    sample: Sample
    over_end: Tensor  # the stored neighbour, but of the next episode
    over_seam: Tensor  # the stored neighbour, but from before the newest step: the write cursor lies between
    shuffled: Tensor  # hardly any two neighbours are neighbours in time
    stretches: Tensor  # two stretches laid end to end

    def where(self, mask: Tensor) -> Where:
        """The first step of ``mask``."""
        row, step = mask.nonzero()[0].tolist()
        return Where((self.number, row), step, first_step=step)


def joins(evidence: Evidence) -> list[Joins]:
    """The unmarked joins of every training batch."""
    return evidence.once(
        "joins",
        lambda: [
            _joins(number, sample, seam(evidence.pipeline.replay))
            for number, sample in enumerate(samples(evidence))
        ],
    )


def crosses(evidence: Evidence) -> bool:
    """Whether some training batch joins steps without a mark, in whatever way."""
    return any(
        bool((j.over_end | j.over_seam | j.shuffled | j.stretches).any()) for j in joins(evidence)
    )


def _joins(number: int, sample: Sample, ends: list[tuple[int, int]]) -> Joins:
    unmarked = _unmarked(sample)
    over = unmarked & stored_neighbours(sample)
    seams = torch.zeros_like(over)
    for left, right in ends:
        seams[:, 1:] |= (sample.ids[:, :-1] == left) & (sample.ids[:, 1:] == right)
    seams &= unmarked & ~over
    known = max(1, int(sample.known.sum()))
    stretches = known - int((sample.follows & sample.known).sum())
    shuffled = known / max(1, stretches) < SHUFFLED and known > sample.known.shape[0]
    rest = unmarked & ~over & ~seams
    none = torch.zeros_like(rest)
    kinds = (rest, none) if shuffled else (none, rest)
    return Joins(number, sample, over, seams, *kinds)


def _unmarked(sample: Sample) -> Tensor:
    left = torch.zeros_like(sample.known)
    left[:, 1:] = sample.known[:, :-1]
    repeated = torch.zeros_like(left)
    repeated[:, 1:] = sample.ids[:, 1:] == sample.ids[:, :-1]
    return sample.known & left & ~sample.follows & ~sample.marked & ~repeated


def stored_neighbours(sample: Sample) -> Tensor:
    """The right step was stored behind the left one: next number, same batch and row, another episode."""
    result = torch.zeros_like(sample.known)
    places = sample.steps.places
    for row, step in (sample.ids >= 0).nonzero().tolist():
        if step == 0 or sample.ids[row, step - 1] < 0:
            continue
        left, right = int(sample.ids[row, step - 1]), int(sample.ids[row, step])
        result[row, step] = right == left + 1 and places[left][:2] == places[right][:2]
    return result
