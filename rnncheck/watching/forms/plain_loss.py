"""The lines of a user's loop behind its steps of a plain env, as a loss of what was collected:
variables that hold collected entries get those of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_items
from rnncheck.watching.forms.held_as import TENSORS, gathered, handed
from rnncheck.watching.forms.plain_calls import FLAG, Path, Slot, ToldCall, call_leaves, filled

_LAST: tuple[Key, ...] = (("next", "observation"), ("next", "done"))


@dataclass(frozen=True)
class Storage:
    """A variable, or a part of one, that holds entry ``key``: of all steps, time first, or with
    ``at`` of the first or the last one. ``listed`` has one thing for each step; ``of_what`` are
    tensors, arrays or plain numbers."""

    key: Key
    shape: tuple[int, ...]
    dtype: torch.dtype
    listed: bool = False
    at: int | None = None
    slot: Slot | None = None  # of a state
    of_what: str = TENSORS

    def of(self, batch: TensorDictBase) -> Any:
        """What the variable holds for a batch ``[rows, steps]``."""
        value = batch.get(self.key)
        kind = torch.get_default_dtype() if self.dtype == torch.float32 else self.dtype
        if self.slot is not None and self.at is not None:
            return self.slot.given(value[:, self.at])
        if self.at is not None:
            return value[:, self.at].reshape(self.shape).to(kind)
        whole = value.transpose(0, 1).reshape(self.shape).to(kind)
        return handed(whole, self.of_what, listed=self.listed)


Storages = list[tuple[str, Any, dict[Path, Storage]]]


def storages_in(names: Mapping[str, Any], batch: TensorDictBase, told: ToldCall) -> Storages:
    """The variables that hold what was collected."""
    found: Storages = []
    for name, value in names.items():
        whole, of_what = _stacked(value, batch)
        if whole is not None:
            one = _of_all_steps(whole, batch)
            if one is not None:
                held = replace(one, listed=isinstance(value, list), of_what=of_what)
                found.append((name, value, {(): held}))
            continue
        parts = {
            path: one
            for path, leaf in call_leaves(value)
            if isinstance(leaf, Tensor)
            and (one := _of_all_steps(leaf, batch) or _of_one_step(path, leaf, batch, told))
        }
        if parts:
            found.append((name, value, parts))
    return found


def _stacked(value: Any, batch: TensorDictBase) -> tuple[Tensor | None, str]:
    """A list, or an array, of what was collected step by step, and what it is made of."""
    if isinstance(value, (list, np.ndarray)) and len(value) == batch.shape[1]:
        return gathered(value)
    return None, TENSORS


def _of_all_steps(value: Tensor, batch: TensorDictBase) -> Storage | None:
    rows, steps = batch.shape
    if value.ndim == 0 or value.shape[0] != steps or value.numel() % (rows * steps):
        return None
    mine = value.detach().reshape(steps, rows, -1)
    for key, entry in tensor_items(batch):
        theirs = entry.transpose(0, 1).reshape(steps, rows, -1)
        begun = int(key == (FLAG,))  # acting begins there, flagged or not
        if mine.shape == theirs.shape and _equal(mine[begun:], theirs[begun:]):
            return Storage(key, tuple(value.shape), value.dtype)
    return None


def _of_one_step(
    path: Path, value: Tensor, batch: TensorDictBase, told: ToldCall
) -> Storage | None:
    """What acting began with, or what was observed last."""
    found = list[Storage]()
    for key, slot in told.carry.items():
        for at, entry in ((0, key), (-1, ("next", *key))):
            slot = replace(slot, array=False)
            wanted = slot.given(batch.get(entry)[:, at])
            if wanted.shape == value.shape and _equal(value, wanted):
                one = Storage(entry, tuple(value.shape), value.dtype, at=at, slot=slot)
                if key[0].endswith("_".join(path)):  # of states that are alike, such as zeros
                    return one
                found.append(one)
    if found:
        return found[0]
    for key in _LAST:
        last = batch.get(key)[:, -1]
        if value.numel() == last.numel() and _equal(value.reshape(-1), last.reshape(-1)):
            return Storage(key, tuple(value.shape), value.dtype, at=-1)
    return None


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.detach().cpu(), other.detach().cpu().to(one.dtype))


def rollout_loss(lines: Callable[..., Any], storages: Storages) -> Callable[[TensorDictBase], Any]:
    """The lines as a function of a batch."""
    return partial(run_lines, lines, storages)


def run_lines(lines: Callable[..., Any], storages: Sequence[Any], batch: TensorDictBase) -> Any:
    """What the lines give where their variables hold the batch."""
    given = {
        name: filled(value, {path: one.of(batch) for path, one in parts.items()})
        if () not in parts
        else parts[()].of(batch)
        for name, value, parts in storages
    }
    return lines(None, **given)
