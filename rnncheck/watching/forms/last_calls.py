"""Calls of the user's functions behind the last step of a rollout, inside of what collects it, such
as the one that values what was observed last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.watching.forms.held_as import Scale
from rnncheck.watching.forms.one_step import is_equal_there, same_of_rows
from rnncheck.watching.forms.plain_calls import OWNER, PlainCall, PlainStep, Slot, ToldCall
from rnncheck.watching.forms.plain_columns import columns_in
from rnncheck.watching.forms.plain_policy import PlainPolicy
from rnncheck.watching.forms.plain_told import slot_of
from rnncheck.watching.forms.shown_entries import shown_keys
from rnncheck.watching.forms.storages import DONE, anew
from rnncheck.watching.forms.structures import Path

_NAME = "behind_the_last"
_OPPOSITE: Scale = (-1.0, 1.0)


@dataclass(frozen=True)
class LastEntry:
    """The entry of the last step that an argument is, zero where an episode ended if ``fresh``."""

    entry: Key
    fresh: bool = False

    def of(self, batch: TensorDictBase) -> Tensor:
        """``[rows, ...]``."""
        last = batch.get(self.entry)[:, -1]
        return anew(last, batch) if self.fresh else last


@dataclass(frozen=True)
class LastCall:
    """Such a call; ``sources`` are by the keys that its arguments go by."""

    policy: PlainPolicy
    sources: Mapping[Key, LastEntry]

    def __call__(self, batch: TensorDictBase) -> TensorDictBase:
        """What it gives behind the last step of ``batch`` ``[rows, steps]``, at each step."""
        given = {key: source.of(batch) for key, source in self.sources.items()}
        with torch.no_grad():
            found = self.policy.outputs(TensorDict(given, [len(batch)]))
        return TensorDict(
            {key: _at_each(one, batch) for key, one in found.items()}, batch_size=batch.batch_size
        )


def last_calls(
    steps: Sequence[PlainStep], whole: TensorDictBase, told: ToldCall
) -> Iterator[tuple[LastCall, dict[Key, Tensor]]]:
    """Those of which it is known what they are given, and what they gave, of steps ``whole``
    ``[rows, steps]`` by a function that is ``told``."""
    for number, call in enumerate(steps[-1].beside):
        if call.function is None or call.graphed:
            continue
        arguments, sources = _arguments(call, whole, told)
        shown = any(one.entry[1:] in shown_keys(whole) for one in sources.values())
        results, gave = _results(number, call, whole)
        if shown and results:
            policy = PlainPolicy(call, ToldCall(arguments, results, whole.shape[0]))
            yield LastCall(policy, sources), gave


def keys_behind_the_last(batch: TensorDictBase) -> list[Key]:
    """The entries that hold what such calls gave."""
    return [key for key in tensor_keys(batch) if is_behind_the_last(key)]


def is_behind_the_last(key: Key) -> bool:
    """Whether it is one of these."""
    return key[0].startswith(_NAME)


def _arguments(
    call: PlainCall, whole: TensorDictBase, told: ToldCall
) -> tuple[dict[Path, Slot], dict[Key, LastEntry]]:
    """Both empty where one of them is nothing that is known."""
    slots, sources = dict[Path, Slot](), dict[Key, LastEntry]()
    rows = whole.shape[0]
    for path, column in columns_in([{**call.arguments, OWNER: call.before}]).items():
        if column.values is None or column.values.numel() % rows or column.values.numel() < rows:
            continue
        key = (f"{_NAME}_{'_'.join(path)}",)
        found = _found(key, column.values, whole, told)
        if found is not None:
            slot, sources[key] = found
            slots[path] = replace(slot, of_what=column.of_what, none=column.none)
        elif path[0] != OWNER:
            return {}, {}
    return slots, sources


def _found(
    key: Key, values: Tensor, whole: TensorDictBase, told: ToldCall
) -> tuple[Slot, LastEntry] | None:
    """What an argument ``[1, ...]`` is."""
    rows = whole.shape[0]
    for entry in shown_keys(whole):
        last = whole.get(("next", *entry))[:, -1]
        slot = slot_of(key, values, rows, last[0].numel())
        held = slot.found(values, 1)
        if _fits(slot, held, last) and same_of_rows(held, last, whole):
            return slot, LastEntry(("next", *entry))
    for state in told.carry:
        source = LastEntry(("next", *state))
        slot = slot_of(key, values, rows)
        for one in (source, replace(source, fresh=True)):
            last = one.of(whole)
            if _fits(slot, values, last) and _same(slot.found(values, 1), last):
                return slot, one
    over, slot = whole.get(DONE)[:, -1], slot_of(key, values, rows, 1)
    for scale in (None, _OPPOSITE):
        flags = over if scale is None else 1 - over.double()
        if _fits(slot, values, over) and _same(slot.found(values, 1), flags):
            return replace(slot, scale=scale), LastEntry(DONE)
    return None


def _fits(slot: Slot, values: Tensor, last: Tensor) -> bool:
    return values.numel() == last.numel() and (slot.axis is not None or len(last) == 1)


def _same(held: Tensor, last: Tensor) -> bool:
    return is_equal_there(held.flatten(), last.flatten())


def _results(
    number: int, call: PlainCall, whole: TensorDictBase
) -> tuple[dict[Path, Slot], dict[Key, Tensor]]:
    slots, gave, rows = dict[Path, Slot](), dict[Key, Tensor](), whole.shape[0]
    for path, column in columns_in([call.result]).items():
        values = column.values
        if values is not None and values.is_floating_point() and values.numel() % rows == 0:
            key = (f"{_NAME}_{'_'.join((str(number), *path))}",)
            slots[path] = slot_of(key, values, rows)
            gave[key] = _at_each(slots[path].found(values, 1)[:, 0], whole)
    return slots, gave


def _at_each(value: Tensor, batch: TensorDictBase) -> Tensor:
    """``[rows, ...]`` at each step."""
    return value.unsqueeze(1).expand(*batch.shape, *value.shape[1:])
