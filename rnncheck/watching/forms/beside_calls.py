"""Calls of the user's functions behind a step of an env and ahead of the next, such as those that
value what the step has shown: which of their arguments is what, and the same on a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_items
from rnncheck.watching.forms.plain_calls import OWNER, PlainCall, PlainStep, Slot, ToldCall
from rnncheck.watching.forms.plain_columns import Column, columns_in
from rnncheck.watching.forms.plain_policy import PlainPolicy
from rnncheck.watching.forms.plain_told import slot_of
from rnncheck.watching.forms.structures import Path

_NAME = "beside"
_MADE = ("log_prob", "prob", "entropy", "parts")  # of what acting gave: no argument is one


@dataclass(frozen=True)
class BesideCalls:
    """One such call of every step."""

    policy: PlainPolicy

    def __call__(self, batch: TensorDictBase) -> TensorDictBase:
        """What it gives at every step of ``batch`` ``[rows, steps]``, by key."""
        with torch.no_grad():
            found = self.policy.outputs(batch.reshape(-1))
        laid = {key: one.reshape(*batch.shape, *one.shape[1:]) for key, one in found.items()}
        return TensorDict(laid, batch_size=batch.batch_size)


def beside_calls(
    steps: Sequence[PlainStep], whole: TensorDictBase
) -> Iterator[tuple[BesideCalls, dict[Key, Tensor]]]:
    """The calls of which it is known what they are given, of steps ``whole`` ``[rows, steps]``, and
    what they gave."""
    for number in range(min(len(step.beside) for step in steps)):
        calls = [step.beside[number] for step in steps]
        if calls[0].function is None or len({call.code for call in calls}) > 1:
            continue
        told = _told(number, calls, whole)
        if told is not None:
            gave = columns_in([call.result for call in calls])
            columns = ((slot, gave[path].values) for path, slot in told.results.items())
            found = {s.key: s.found(one, 1) for s, one in columns if one is not None}
            yield BesideCalls(PlainPolicy(calls[0], told)), found


def _told(number: int, calls: Sequence[PlainCall], whole: TensorDictBase) -> ToldCall | None:
    rows = whole.shape[0]
    arguments, results = dict[Path, Slot](), dict[Path, Slot]()
    for path, column in columns_in([{**c.arguments, OWNER: c.before} for c in calls]).items():
        slot = _argument(column, whole)
        if slot is not None:
            arguments[path] = slot
        elif not _stays(path, column):
            return None
    for path, column in columns_in([call.result for call in calls]).items():
        values = column.values
        if values is not None and values.is_floating_point() and values[0].numel() % rows == 0:
            key = (f"{_NAME}_{'_'.join((str(number), *path))}",)
            results[path] = slot_of(key, values, rows)
    return ToldCall(arguments, results, rows) if arguments and results else None


def _stays(path: Path, column: Column) -> bool:
    values = column.values
    return path[0] == OWNER or (values is not None and bool((values == values[0]).all()))


def _argument(column: Column, whole: TensorDictBase) -> Slot | None:
    """The entry that it is at every step; None for what is none, or always the same."""
    values, rows = column.values, whole.shape[0]
    if values is None or not bool((values != values[0]).any()):
        return None
    for key, entry in tensor_items(whole):
        if key[0] in _MADE or entry.numel() != values.numel():
            continue
        width = entry[0, 0].numel()
        slot = slot_of(key, values, rows, width if entry.ndim < 4 else None)
        if slot.axis is None and rows > 1:
            continue
        held = slot.found(values, 1)
        if held.shape[:2] == whole.shape and _same(held, entry):
            return _as_held(slot, column)
    return None


def _as_held(slot: Slot, column: Column) -> Slot:
    return Slot(slot.key, slot.axis, slot.rest, slot.dtype, column.of_what, column.none)


def _same(held: Tensor, entry: Tensor) -> bool:
    mine = held.flatten(2) if held.ndim > 2 else held.unsqueeze(2)
    theirs = entry.flatten(2) if entry.ndim > 2 else entry.unsqueeze(2)
    return mine.shape == theirs.shape and torch.equal(mine, theirs.to(mine.dtype))
