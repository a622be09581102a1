"""How far a loss carries the reward of one step: the last step that it weighs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.credited_steps import SMALLEST, keeps_memory, moves, rewards
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.layer_gradients import layer_gradients, layers_that_act
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.pipeline.keys import Key

TELLING = 6  # changed steps that must agree: chosen
MARGIN = 3  # steps behind the changed one in its trajectory, so that moving the rest of it shows
BEHIND = 10**6  # stands for: it weighs the end of its trajectory, and not the beginning
MOST = 8  # changes of one batch, each of one step in every row: chosen, each costs a gradient

_Answer = tuple[int, tuple[int, int, int]]  # an offset, and where it was asked


@dataclass(frozen=True)
class LastCredited:
    """``offset``: how many steps behind a reward's own step the last one is that it weighs, or
    ``BEHIND``; the same at all ``count`` changed steps, of which ``place`` is one ``(batch, row,
    step)``."""

    key: Key
    offset: int
    count: int
    place: tuple[int, int, int]


def last_credited(evidence: Evidence) -> list[LastCredited]:
    """Of each reward, nothing where steps do not agree. In a loss in which what is observed at a
    step moves later steps (a model of what comes next, a memory that no flag cuts) what the layers
    give that act tells."""
    told = dict[tuple[Key, str], list[_Answer]]()
    for number, sample in each_sample(evidence):
        probes = list(_probes(sample))
        if not probes:
            continue
        if not _looks_back(evidence, sample, probes[0]):
            for name, answer in _by_layers(evidence, sample, number):
                told.setdefault(name, []).append(answer)
            continue
        for key, at in itertools.product(rewards(sample), probes):
            told.setdefault((key, ""), []).extend(
                (offset, (number, *place)) for offset, place in _told(evidence, sample, key, at)
            )
    return list(_all_agreed(told))


def last_by_layer(evidence: Evidence) -> list[LastCredited]:
    """The same of each layer that acts by itself, where the last step lies ahead of the reward's
    own: a value beside it is weighed rightly, and hides that what it acts by is not."""
    told = dict[tuple[Key, str], list[_Answer]]()
    for number, sample in each_sample(evidence):
        for name, answer in _by_layers(evidence, sample, number):
            told.setdefault(name, []).append(answer)
    return [one for one in _all_agreed(told) if -MARGIN < one.offset < 0]


def _by_layers(
    evidence: Evidence, sample: Sample, number: int
) -> Iterator[tuple[tuple[Key, str], _Answer]]:
    """Of each reward and each layer that acts what single steps say."""
    acting = layers_that_act(evidence, sample)
    before = layer_gradients(evidence, sample, sample.td) if acting else {}
    probes = _probes(sample) if acting & before.keys() else iter(())
    for at, key in itertools.product(probes, rewards(sample)):
        rows = changed_batch(sample, at, [key]).reshape(sample.rows.shape)
        found = moves(evidence, sample, rows)
        if found is None or found.read:
            continue
        after = layer_gradients(evidence, sample, rows.reshape(sample.td.shape))
        for name in acting & before.keys() & after.keys():
            size = (after[name] - before[name]).double().abs().nan_to_num().amax(-1)
            steps = size > SMALLEST * float(size.max())
            for offset, place in _offsets(sample, steps, at):
                yield (key, name), (offset, (number, *place))


def _all_agreed(told: Mapping[tuple[Key, str], list[_Answer]]) -> Iterator[LastCredited]:
    for (key, _), answers in told.items():
        if (offset := _agreed(answers)) is not None:
            yield LastCredited(key, offset, len(answers), answers[0][1])


def _agreed(answers: list[_Answer]) -> int | None:
    """What enough steps say alike."""
    offsets = {offset for offset, _ in answers}
    return offsets.pop() if len(offsets) == 1 and len(answers) >= TELLING else None


def _probes(sample: Sample) -> Iterator[Tensor]:
    """Masks ``[rows, steps]`` of one step in every row that has some with neighbours."""
    generator = torch.Generator().manual_seed(17)
    inside = _has_neighbours(sample)
    rows = inside.any(1)
    if not bool(rows.any()):
        return
    for _ in range(min(MOST, max(2, -(-TELLING // int(rows.sum()))))):
        drawn = torch.rand(inside.shape, generator=generator).masked_fill(~inside, -1.0)
        chosen = torch.zeros_like(inside)
        chosen[torch.arange(len(inside)), drawn.argmax(1)] = True
        yield chosen & inside


def _has_neighbours(sample: Sample) -> Tensor:
    """``[rows, steps]``: one step before it, and several behind it, are of its trajectory."""
    segments, steps = sample.segments, sample.valid.shape[1]
    inside = torch.zeros_like(sample.valid)
    if steps > MARGIN + 1:
        own = segments[:, 1:-MARGIN]
        alike = (segments[:, : -MARGIN - 1] == own) & (segments[:, MARGIN + 1 :] == own)
        inside[:, 1:-MARGIN] = alike & sample.valid[:, MARGIN + 1 :]
    return inside


def _looks_back(evidence: Evidence, sample: Sample, at: Tensor) -> bool:
    """Whether no step is moved by what was observed at one before it; but for a memory that no
    flag cuts, where the gradient is told at what layers give."""
    if keeps_memory(evidence, sample):
        return True
    root = [key for key in observed(evidence, sample) if key[0] != "next"]
    found = moves(evidence, sample, changed_batch(sample, at, root).reshape(sample.rows.shape))
    if found is None:
        return False
    answers = list(_offsets(sample, found.steps, at))
    return bool(answers) and all(offset == 0 for offset, _ in answers)


def _told(
    evidence: Evidence, sample: Sample, key: Key, at: Tensor
) -> Iterator[tuple[int, tuple[int, int]]]:
    found = moves(evidence, sample, changed_batch(sample, at, [key]).reshape(sample.rows.shape))
    return iter(()) if found is None or found.read else _offsets(sample, found.steps, at)


def _offsets(sample: Sample, steps: Tensor, at: Tensor) -> Iterator[tuple[int, tuple[int, int]]]:
    """For each row how far behind the changed step the last of ``steps`` of its trajectory lies;
    nothing where these reach its end and its beginning, as with a mean over it."""
    for row, step in at.nonzero().tolist():
        own = sample.segments[row] == sample.segments[row, step]
        moved = (steps[row] & own & sample.valid[row]).nonzero()[:, 0]
        last = int((own & sample.valid[row]).nonzero()[-1])
        begins = int((own & sample.valid[row]).nonzero()[0])
        if len(moved) and int(moved[-1]) < last:
            yield int(moved[-1]) - step, (row, step)
        elif len(moved) and int(moved[0]) > begins:
            yield BEHIND, (row, step)
