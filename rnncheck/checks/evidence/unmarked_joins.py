"""Where a training batch joins steps that are not neighbours in time, and whether it says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample, make_sample, samples
from rnncheck.errors import StageError
from rnncheck.pipeline.keys import STEP_KEY, tensor_keys
from rnncheck.pipeline.recording.buffer_order import seam
from rnncheck.pipeline.recording.sampling import draw_samples
from rnncheck.pipeline.subject.modes import MEASURING_SEED, measuring
from rnncheck.results.model import Where

MORE_STEPS = 1024  # drawn beyond the training batches where these join nothing
# Mean length of a stretch of true neighbours below which the steps are taken to be shuffled.
SHUFFLED = 2.0


@dataclass(frozen=True)
class Joins:
    """Unmarked joins of one training batch, ``[rows, steps]`` each."""

    number: int
    sample: Sample
    over_end: Tensor  # the stored neighbour, but of the next episode
    # The stored neighbour, but from before the newest step: the write cursor lies between.
    over_seam: Tensor
    shuffled: Tensor  # hardly any two neighbours are neighbours in time
    stretches: Tensor  # two stretches laid end to end
    full: bool = False  # drawn from a second buffer that was filled over its capacity

    @property
    def any(self) -> bool:
        """Whether there is one, of whatever kind."""
        return bool((self.over_end | self.over_seam | self.shuffled | self.stretches).any())

    def where(self, mask: Tensor) -> Where:
        """The first step of ``mask``."""
        row, step = mask.nonzero()[0].tolist()
        return Where((self.number, row), step, first_step=step)


def joins(evidence: Evidence) -> list[Joins]:
    """The unmarked joins of every training batch, and where there are none of further ones."""
    return evidence.once("joins", lambda: _all(evidence))


def _all(evidence: Evidence) -> list[Joins]:
    ends = seam(evidence.pipeline.replay)
    found = [_joins(number, sample, ends) for number, sample in enumerate(samples(evidence))]
    if not any(item.any for item in found):
        more = enumerate(_further(evidence), len(found))
        found += [_joins(number, sample, ends) for number, sample in more]
    if not any(item.any for item in found):
        found += _over_the_cursor(evidence, len(found))
    return found


def _over_the_cursor(evidence: Evidence, first: int) -> Iterator[Joins]:
    """Where samples of a buffer that was filled over its capacity run from its newest step to its
    oldest. Nothing else is asked of them: the same data was written again and again."""
    beyond = evidence.pipeline.overfilled
    for number, (td, ends) in enumerate([] if beyond is None else beyond.samples, first):
        sample = make_sample(evidence, td)
        none = torch.zeros_like(sample.known)
        seams = _unmarked(sample) & _between(sample, ends)
        if bool(seams.any()):
            yield Joins(number, sample, none, seams, none, none, full=True)


def _further(evidence: Evidence) -> Iterator[Sample]:
    """More draws of the sampler: of a few slices, none may meet a junction that others do."""
    pipeline, steps = evidence.pipeline, 0
    section, first = pipeline.spec.replay, next(iter(samples(evidence)), None)
    if section is None or pipeline.replay is None or pipeline.spec.batch is not None:
        return
    while first is not None and STEP_KEY in tensor_keys(first.rows) and steps < MORE_STEPS:
        try:
            with measuring(recurrent=None, seed=MEASURING_SEED + steps):
                (drawn,) = draw_samples(section, pipeline.replay, 1)
        except StageError:  # a sampler that has no more to give
            return
        steps += max(1, drawn.numel())
        yield make_sample(evidence, drawn)


def crosses(evidence: Evidence) -> bool:
    """Whether some training batch joins steps without a mark, in whatever way."""
    return any(item.any and not item.full for item in joins(evidence))


def _joins(number: int, sample: Sample, ends: list[tuple[int, int]]) -> Joins:
    unmarked = _unmarked(sample)
    over = unmarked & stored_neighbours(sample)
    seams = _between(sample, ends) & unmarked & ~over
    known = max(1, int(sample.known.sum()))
    stretches = known - int((sample.follows & sample.known).sum())
    shuffled = known / max(1, stretches) < SHUFFLED and known > sample.known.shape[0]
    rest = unmarked & ~over & ~seams
    none = torch.zeros_like(rest)
    kinds = (rest, none) if shuffled else (none, rest)
    return Joins(number, sample, over, seams, *kinds)


def _between(sample: Sample, pairs: list[tuple[int, int]]) -> Tensor:
    """Steps with the second number of a pair whose left neighbour has the first."""
    found = torch.zeros_like(sample.known)
    for left, right in pairs:
        found[:, 1:] |= (sample.ids[:, :-1] == left) & (sample.ids[:, 1:] == right)
    return found


def _unmarked(sample: Sample) -> Tensor:
    left = torch.zeros_like(sample.known)
    left[:, 1:] = sample.known[:, :-1]
    repeated = torch.zeros_like(left)
    repeated[:, 1:] = sample.ids[:, 1:] == sample.ids[:, :-1]
    return sample.known & left & ~sample.follows & ~sample.marked & ~repeated


def stored_neighbours(sample: Sample) -> Tensor:
    """The right step was stored behind the left one: next number, same batch and row, another
    episode."""
    result = torch.zeros_like(sample.known)
    places = sample.steps.places
    for row, step in (sample.ids >= 0).nonzero().tolist():
        if step == 0 or sample.ids[row, step - 1] < 0:
            continue
        left, right = int(sample.ids[row, step - 1]), int(sample.ids[row, step])
        result[row, step] = right == left + 1 and places[left][:2] == places[right][:2]
    return result
