"""Whether what a training batch holds of a step is what was recorded at that step, at another one,
or nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.pipeline.keys import Key
from rnncheck.printable import counted

FARTHEST = 3  # steps: chosen, an entry stored late or early is off by one
MOST_ROWS = 64  # that a batch is tried in another order of; chosen, since each costs a comparison
MOST_AGENTS = 16  # or numbers of an action, that are tried in another order of them
OF_ANOTHER = "for another agent, or in another place of its step"
TELLING = 16  # steps at which another place holds another value: by chance 2 ** -16 of two actions
AGREEING = 0.9  # share of these that must agree: where slices join, a moved entry has no source
ROUNDING = 1e-5  # relative: of a map between two forms of an action
LEVEL_SLACK = 1e-3  # deviations: what is normalised over a minibatch or the whole batch


@dataclass(frozen=True)
class RecordedEntry:
    """One entry of a training batch beside the recorded one, ``[rows, steps, ...]`` both."""

    key: Key
    given: Tensor
    recorded: Tensor
    known: Tensor  # ``[rows, steps]``
    slack: float = 0.0  # by which both may differ and be the same

    @property
    def differs(self) -> Tensor:
        """``[rows, steps]``: another value than was recorded there."""
        return _differ(self.given, self.recorded, self.slack) & self.known

    @property
    def codes(self) -> tuple[Tensor, Tensor]:
        """Both without a one-hot dimension."""
        pair = self.given, self.recorded
        one, other = (value.long().argmax(-1) if _one_hot(value) else value for value in pair)
        return (one, other) if one.shape == other.shape else pair


def recorded_entry(sample: Sample, key: Key) -> RecordedEntry | None:
    """None where the batch or the recording has no such entry, or in another form."""
    given, column = sample.rows.get(key, None), sample.steps.column(key)
    if given is None or column is None or given.shape[2:] != column.shape[1:]:
        return None
    recorded = column[sample.ids.clamp_min(0)]
    if given.dtype != recorded.dtype:
        given = given.to(recorded.dtype)
    return RecordedEntry(key, given, recorded, sample.known)


def levelled(one: RecordedEntry) -> RecordedEntry:
    """Both less their mean and over their deviation: a scale and a shift that all steps have make
    no difference."""
    here, there = (_level(value, one.known) for value in (one.given, one.recorded))
    return RecordedEntry(one.key, here, there, one.known, LEVEL_SLACK)


def _level(value: Tensor, known: Tensor) -> Tensor:
    inside = value[known].double()
    spread: Tensor = (value.double() - inside.mean()) / inside.std().clamp_min(1e-12)
    return spread


def clipped(one: RecordedEntry) -> RecordedEntry:
    """What was recorded, with the limits that the given values keep to."""
    inside = one.given[one.known]
    return replace(one, recorded=one.recorded.clamp(inside.min(), inside.max()))


def moved_from(found: Sequence[RecordedEntry]) -> str:
    """Where all that stands here was recorded, in words; empty where that is nowhere. A batch that
    holds everything as it was recorded does not tell where that of the others is from."""
    counts = dict[str, Tensor]()
    for one in (one for one in found if bool(one.differs.any())):
        for words, source, known in (*_elsewhere(one), *_beside(one)):
            counts[words] = counts.get(words, torch.zeros(4)) + _agreeing(one, source, known)
    for words, (telling, same_telling, known, same) in counts.items():
        if telling >= TELLING and same_telling >= AGREEING * telling and same >= AGREEING * known:
            return words.split(";")[0]
    return ""


def _elsewhere(one: RecordedEntry) -> Iterator[tuple[str, Tensor, Tensor]]:
    """In words what was recorded at other steps, and where that is known."""
    for words, order in orders(one.known.shape):
        source = one.recorded.flatten(0, 1)[order]
        yield words, source, one.known & one.known.flatten()[order]


def _beside(one: RecordedEntry) -> Iterator[tuple[str, Tensor, Tensor]]:
    """The same of what was recorded at the step itself, for another agent."""
    agents = one.recorded.shape[2] if one.recorded.ndim > 2 else 1
    if 1 < agents <= MOST_AGENTS:
        for far in range(1, agents):
            yield f"{OF_ANOTHER};{far}", one.recorded.roll(far, 2), one.known
        yield f"{OF_ANOTHER};turned", one.recorded.flip(2), one.known


def _agreeing(one: RecordedEntry, source: Tensor, known: Tensor) -> Tensor:
    """Of the steps at which the other place holds another value, how many and how many agree with
    it; the same of all steps."""
    telling = known & _differ(source, one.recorded, one.slack)
    same = ~_differ(one.given, source, one.slack)
    masks = (telling, same & telling, known, same & known)
    return torch.tensor([float(mask.sum()) for mask in masks])


def orders(shape: torch.Size) -> Iterator[tuple[str, Tensor]]:
    """Orders that a batch is mistaken into: of each, which place everything comes from. What stands
    behind a semicolon tells one from another alone."""
    places = torch.arange(shape.numel()).reshape(shape)
    for far in (step for n in range(1, FARTHEST + 1) for step in (n, -n)):
        yield (
            f"{counted(abs(far), 'step')} {'earlier' if far > 0 else 'later'}",
            places.roll(far, 1),
        )
    for far in range(1, min(shape[0], MOST_ROWS)):
        yield f"in another row;{far}", places.roll(far, 0)
    if shape[0] > 1:
        yield "in another row;turned", places.flip(0)
        laid = "where the batch has rows and steps exchanged"
        yield laid, places.reshape(shape[1], shape[0]).T
        yield f"{laid};back", places.T.reshape(shape)
    yield "at the other end of the row", places.flip(1)


def is_function_of(one: RecordedEntry) -> bool:
    """Whether what was recorded follows from what is given, entry by entry: a form of it, such as
    another numbering, or clipped and scaled."""
    given, recorded = (value[one.known].reshape(int(one.known.sum()), -1) for value in one.codes)
    columns = zip(given.unbind(1), recorded.unbind(1), strict=True)
    if given.is_floating_point():
        return all(_monotone(a, b) for a, b in columns)
    return all(_maps(a, b) for a, b in columns)


def _maps(given: Tensor, recorded: Tensor) -> bool:
    """Each value that is given goes with one that was recorded."""
    return all(
        int(recorded[given == value].unique().numel()) == 1 for value in given.unique().tolist()
    )


def _monotone(given: Tensor, recorded: Tensor) -> bool:
    order = given.double().argsort()
    rises = recorded.double()[order].diff()
    slack = ROUNDING * float(recorded.double().abs().amax())
    return bool((rises >= -slack).all()) or bool((rises <= slack).all())


def _differ(one: Tensor, other: Tensor, slack: float = 0.0) -> Tensor:
    """``[rows, steps]``: not the same to the bit, or within the slack."""
    differ = gap(one, other) > slack if slack else bits_differ(one, other)
    return differ.reshape(*one.shape[:2], -1).any(-1)


def _one_hot(value: Tensor) -> bool:
    if value.ndim < 3 or value.shape[-1] < 2 or value.is_floating_point():
        return False
    return bool((value.long().sum(-1) == 1).all())
