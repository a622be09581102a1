"""A training pass over slices of a rollout that the script's lines take out of it themselves and
run one step after the other: ``for i in range(recurrence): model(batch[starts + i], memory)``.

Which steps they take is told by behaviour: what is observed at each step is changed in the runs of
the lines that its codeword names, and the runs in which the output at a position moves spell it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.numerics.codewords import codewords, decoded
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.keys import Key, tensor_items, tensor_keys
from rnncheck.pipeline.placing import place_of, placed
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.watching.forms.part_outputs import PartOutputs, part_key
from rnncheck.watching.forms.plain_calls import OBSERVATION
from rnncheck.watching.forms.recorded_rows import recorded_steps

Given = dict[str, list[Tensor]]
Lines = Callable[[TensorDictBase], Any]
_FLAGS = ("is_init", "done", "terminated", "truncated")
_FEWEST = 2  # steps of a slice
_OF_VECTORS = 3  # dimensions: steps, rows, numbers; what has more are pictures, one in a row


@dataclass(frozen=True)
class TakenSteps:
    """Which steps of the rollout the slices hold, row and step of each, ``[slices, steps, 2]``.
    Parts give something of it in ``call`` ``[slices, steps]`` of calls on as many rows as
    ``counts`` tell, and there at the ``row`` ``[slices]``."""

    places: Tensor
    call: Tensor
    row: Tensor
    counts: Sequence[int]

    def of(self, values: Sequence[Tensor]) -> Tensor:
        """What one part gave at the steps, ``[slices, steps, features]``, by its calls."""
        calls = zip(values, self.counts, strict=True)
        rows = [value.reshape(count, -1) for value, count in calls]
        steps = zip(self.call.flatten().tolist(), self._rows(), strict=True)
        return torch.stack([rows[n][at] for n, at in steps]).reshape(*self.call.shape, -1)

    def _rows(self) -> list[int]:
        found: list[int] = self.row.unsqueeze(1).expand_as(self.call).flatten().tolist()
        return found


class SlicesInLines:
    """Runs the lines on the rollout, with slices of another batch in the place of those that they
    take: the pass is what the parts give meanwhile, ``[rows, steps]`` as ``batch``."""

    of_the_loss = True  # what is true of this pass is true of the one inside the loss

    def __init__(
        self, loss: Lines, parts: Mapping[str, nn.Module], whole: TensorDictBase, taken: TakenSteps
    ) -> None:
        self._loss, self._parts, self._whole, self._taken = loss, dict(parts), whole, taken
        self.batch = recorded_steps(whole, taken.places)
        self._forms = _forms(_given(loss, parts, whole))

    def __call__(self, batch: TensorDictBase) -> dict[Key, Tensor]:
        """By key, what each part gives at every step of ``batch``.

        Raises:
            RuntimeError: the lines took other steps than those of the rollout that was seen.
        """
        td = placed(self._in_place(batch), place_of(self._whole))
        given = _given(self._loss, self._parts, td)
        if _forms(given) != self._forms:
            raise RuntimeError("the lines lay other steps out in another way")
        each = {path: one for path, one in given.items() if len(one) == len(self._taken.counts)}
        found = {part_key(p): placed(self._taken.of(v), place_of(batch)) for p, v in each.items()}
        return found if torch.is_grad_enabled() else {k: v.detach() for k, v in found.items()}

    def held_parts(self) -> list[tuple[str, Any]]:
        """What it can reach."""
        return [("loss", self._loss), *self._parts.items()]

    def _in_place(self, batch: TensorDictBase) -> TensorDictBase:
        """The rollout with the steps of ``batch`` where the lines take theirs."""
        whole, places = self._whole.clone(), self._taken.places
        given = dict(tensor_items(batch))
        wide = any(value.dtype == torch.float64 for value in given.values())
        for key, value in tensor_items(whole):
            value = value.double() if wide and value.is_floating_point() else value
            if key in given:
                lent = placed(given[key], place_of(whole)).to(value.dtype)
                value[places[..., 0], places[..., 1]] = lent
            whole.set(key, value)
        return whole


def slices_in_lines(
    loss: Lines, parts: Mapping[str, nn.Module], whole: TensorDictBase
) -> SlicesInLines | None:
    """The pass over the slices that the lines take of the rollout ``whole`` ``[rows, steps]``. None
    where it cannot be told which these are, or it depends on where episodes end."""
    try:
        taken = _taken(loss, parts, whole)
        other = None if taken is None else _taken(loss, parts, _without_ends(whole))
    except Exception:  # lines of the user's may raise anything
        return None
    if taken is None or other is None or not torch.equal(taken.places, other.places):
        return None
    return SlicesInLines(loss, parts, whole, taken)


def is_in_order(over: Callable[[TensorDictBase], Mapping[Key, Tensor]], td: TensorDictBase) -> bool:
    """Whether what a pass gives of ``td`` ``[rows, steps]`` stands where its steps do: a change of
    one row moves no other, and one of the last step none before it. As many calls as there are
    steps may be those of several slices."""
    row, last = torch.zeros(td.shape, dtype=torch.bool), torch.zeros(td.shape, dtype=torch.bool)
    row[0], last[:, -1] = True, True
    with measuring(recurrent=None):
        base, *moved = (over(one) for one in (td, _seen_anew(td, row), _seen_anew(td, last)))
    for changed, after in zip((row, last), moved, strict=True):
        for key, old in base.items():
            if bool(bits_differ(old, after[key]).reshape(*td.shape, -1).any(-1)[~changed].any()):
                return False
    return True


def _taken(loss: Lines, parts: Mapping[str, nn.Module], whole: TensorDictBase) -> TakenSteps | None:
    base = _given(loss, parts, whole)
    words = codewords(whole.numel())
    moved = [_given(loss, parts, _seen_anew(whole, bit.reshape(whole.shape))) for bit in words.T]
    if any(_forms(one) != _forms(base) for one in moved):
        return None
    for path, values in base.items():
        if len(values) < _FEWEST or not all(one.ndim > 1 for one in values):
            continue
        calls = zip(values, *(one[path] for one in moved), strict=True)
        seen = [
            torch.stack([_rows_differ(old, one) for one in others], 1) for old, *others in calls
        ]
        codes = [decoded(one, words) for one in seen]
        if all(bool((one >= 0).all()) for one in codes):  # it observes, and does not remember
            return _in_slices(codes, whole)
    return None


def _in_slices(codes: Sequence[Tensor], whole: TensorDictBase) -> TakenSteps | None:
    """The slices of which each call shows a step, by the steps' numbers; of several that hold the
    same step, as in later epochs, the first."""
    span, met = whole.shape[1], set[int]()
    found = list[tuple[int, int, list[int]]]()  # first call, row of it, steps
    length = 0
    for first, last in _chains(codes, span):
        length = length or last - first
        steps = torch.stack(list(codes[first:last]), 1).tolist() if last - first == length else []
        for row, own in enumerate(steps):
            if not met.intersection(own):
                met.update(own)
                found.append((first, row, own))
    if length < _FEWEST:
        return None
    places = torch.tensor([own for _, _, own in found])
    call = torch.tensor([range(first, first + length) for first, _, _ in found])
    rows = torch.tensor([row for _, row, _ in found])
    counts = [len(one) for one in codes]
    return TakenSteps(torch.stack([places // span, places % span], -1), call, rows, counts)


def _chains(codes: Sequence[Tensor], span: int) -> Iterator[tuple[int, int]]:
    """First and last but one of calls that show one step after the other of the same rows."""
    first = 0
    for number, (one, after) in enumerate(itertools.pairwise(codes), 1):
        same = one.shape == after.shape and torch.equal(one + 1, after)
        if not same or bool((after % span == 0).any()):
            yield first, number
            first = number
    yield first, len(codes)


def _given(loss: Lines, parts: Mapping[str, nn.Module], td: TensorDictBase) -> Given:
    """What each part gives with a graph, call by call."""
    with measuring(recurrent=None, grad=True), PartOutputs(parts) as noted:
        OwnLoss(loss, {})(td.clone())
    given = {path: [v for v in values if v.requires_grad] for path, values in noted.given.items()}
    return {path: values for path, values in given.items() if values}


def _forms(given: Given) -> dict[str, list[tuple[int, ...]]]:
    return {path: [tuple(one.shape) for one in values] for path, values in given.items()}


def _rows_differ(old: Tensor, new: Tensor) -> Tensor:
    """``[positions]``: what stands there is another."""
    rows = len(old) if old.ndim > _OF_VECTORS else old.shape[:-1].numel()
    return bits_differ(old, new).reshape(rows, -1).any(1).cpu()


def _seen_anew(whole: TensorDictBase, steps: Tensor) -> TensorDictBase:
    """The rollout with something else observed at ``steps`` ``[rows, steps]``."""
    changed, value = whole.clone(), whole.get(OBSERVATION).clone()
    there = steps.to(value.device)
    value[there] = _others(value)[there]
    changed.set(OBSERVATION, value)
    return changed


def _others(value: Tensor) -> Tensor:
    """Another number for each, no two of which are alike where numbers may be anything."""
    draw = torch.Generator().manual_seed(0)
    if value.is_floating_point():
        return value + (0.5 + torch.rand(value.shape, generator=draw)).to(value)
    known = value.unique()
    other: Tensor = known[(torch.searchsorted(known, value.contiguous()) + 1) % len(known)]
    return other


def _without_ends(whole: TensorDictBase) -> TensorDictBase:
    """The rollout as one in which no episode ends ahead of the last step."""
    changed = whole.clone()
    for key in tensor_keys(whole):
        if key[-1] in _FLAGS and whole.get(key).dtype == torch.bool:
            flags = whole.get(key).clone()
            flags[:, 1:-1] = False
            changed.set(key, flags)
    return changed
