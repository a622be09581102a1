"""Training batches whose entries have names of the script's own, and losses on such: told by what
they hold, each has the name under which acting recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_items, tensor_keys
from rnncheck.pipeline.placing import on_cpu
from rnncheck.pipeline.subject.modes import called_in_mode, in_mode_of
from rnncheck.watching.forms.time_axis import is_placed, prints
from rnncheck.watching.seen import Acting, Called

_LEAST = 0.5  # share of the steps that must be known by one entry: the greater part


@dataclass(frozen=True)
class Renamed:
    """An entry of the script's: ``shape`` and ``dtype`` of one step of it, and of what acting
    recorded."""

    own: Key
    shape: tuple[int, ...]
    dtype: torch.dtype
    recorded: Key
    recorded_shape: tuple[int, ...]
    recorded_dtype: torch.dtype


def with_recorded_names(acting: Acting, loss: Called, acted: Sequence[TensorDictBase]) -> Called:
    """The loss, of batches with the recorded names; as it is where some of its own tell the steps,
    or none is what was recorded."""
    if not loss.inputs or not acted or is_placed(loss.inputs[0], acted):
        return loss
    names = _names(acting, loss.inputs[0], acted)
    if not any(one.recorded[0] != "next" and one.dtype.is_floating_point for one in names):
        return loss
    mode, inner = called_in_mode(loss.module)
    module = in_mode_of(mode, partial(run_by_own_names, inner, tuple(names)))
    inputs = [_with_names(one, names, back=False) for one in loss.inputs]
    return replace(loss, module=module, inputs=inputs, around=[], batch="", beside=[])


def run_by_own_names(loss: partial[Any], names: Sequence[Renamed], td: TensorDictBase, /) -> Any:
    """``loss`` on the batch with the names that the script has for its entries."""
    return loss(_with_names(td, names, back=True))


def _with_names(td: TensorDictBase, names: Sequence[Renamed], *, back: bool) -> TensorDictBase:
    lead, taken = td.shape, {one.recorded if back else one.own for one in names}
    made = TensorDict({}, lead, device=td.device)
    for key, value in tensor_items(td):
        if key not in taken:
            made.set(key, value)
    for one in names:
        source, target = (one.recorded, one.own) if back else (one.own, one.recorded)
        shape = one.shape if back else one.recorded_shape
        dtype = one.dtype if back else one.recorded_dtype
        if source in tensor_keys(td):
            made.set(target, td.get(source).reshape(*lead, *shape).to(dtype))
    return made


def _names(acting: Acting, batch: TensorDictBase, acted: Sequence[TensorDictBase]) -> list[Renamed]:
    """Of each entry that is what was recorded, at every step that is known."""
    columns = _columns(acted)
    ids = _ids(acting, batch, columns)
    if ids is None:
        return []
    known, found = ids >= 0, list[Renamed]()
    for own, value in tensor_items(batch):
        flat = on_cpu(value).reshape(batch.numel(), -1)[known]
        fitting = [
            key
            for key, column in columns.items()
            if not any(key == one.recorded for one in found)
            and _are_same(flat, column.reshape(len(column), -1)[ids[known]])
        ]
        if fitting:
            key = max(fitting, key=partial(_alike, own))
            shape, column = tuple(value.shape[batch.batch_dims :]), columns[key]
            told = tuple(column.shape[1:])
            found.append(Renamed(own, shape, value.dtype, key, told, column.dtype))
    return found


def _columns(acted: Sequence[TensorDictBase]) -> dict[Key, Tensor]:
    """By key what was recorded at every step, ``[steps, ...]``."""
    found = dict[Key, Tensor]()
    for key in tensor_keys(acted[0]):
        parts = [one.get(key, None) for one in acted]
        flat = [on_cpu(p).flatten(0, td.batch_dims - 1) for p, td in zip(parts, acted, strict=True)
                if p is not None]  # fmt: skip
        if len(flat) == len(acted) and len({tuple(one.shape[1:]) for one in flat}) == 1:
            found[key] = torch.cat(flat)
    return found


def _ids(acting: Acting, batch: TensorDictBase, columns: dict[Key, Tensor]) -> Tensor | None:
    """The recorded step of each, -1 where unknown, by the entry that the env shows and that tells
    most; None where none tells the greater part."""
    best: Tensor | None = None
    for key, column in columns.items():
        carried = ("next", *key) in acting.writes or not column.is_floating_point()
        if key[0] == "next" or ("next", *key) not in columns or carried:
            continue
        places = _alone(prints(column.reshape(len(column), -1)))
        for _, value in tensor_items(batch):
            flat = on_cpu(value).reshape(batch.numel(), -1)
            if flat.dtype != column.dtype or flat[0].numel() != column[0].numel():
                continue
            ids = torch.tensor([places.get(one, -1) for one in prints(flat)])
            share = (ids >= 0).double().mean()
            if share >= _LEAST and (best is None or share > (best >= 0).double().mean()):
                best = ids
    return best


def _alone(told: Sequence[bytes]) -> dict[bytes, int]:
    """By what stands at one step alone the number of that."""
    found, several = dict[bytes, int](), set[bytes]()
    for number, one in enumerate(told):
        if one in found:
            several.add(one)
        found[one] = number
    return {one: number for one, number in found.items() if one not in several}


def _are_same(mine: Tensor, theirs: Tensor) -> bool:
    if mine.shape != theirs.shape:
        return False
    return torch.equal(mine.double(), theirs.double())


def _alike(own: Key, key: Key) -> tuple[int, bool]:
    """How much of their last names they share, and whether it is of the step itself: entries that
    hold the same are told by that alone."""
    mine, theirs = own[-1].lower(), key[-1].lower()
    shared = next((at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), None)
    return min(len(mine), len(theirs)) if shared is None else shared, key[0] != "next"
