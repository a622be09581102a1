"""Which state a variable of a sampled batch holds, of each step or of the first of each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.plain_calls import MOSTLY, Slot, ToldCall
from rnncheck.watching.forms.storages import Storage
from rnncheck.watching.forms.structures import Path


def state_of_steps(
    value: Tensor, batch: TensorDictBase, told: ToldCall, held: set[Key]
) -> Key | None:
    """Of states that are stored beside each step the one that it is, whatever it shows: that of
    another step, or the first of its form that is not ``held``."""
    flat = value.reshape(*batch.shape, -1)
    fitting = [k for k in told.carry if batch.get(k).reshape(*batch.shape, -1).shape == flat.shape]
    for key in fitting if bool(flat.any()) else []:
        after = batch.get(("next", *key)).reshape(flat.shape)
        if float((flat == after.to(flat.dtype)).all(-1).double().mean()) >= MOSTLY / 2:
            return key
    return next((key for key in fitting if key not in held and bool(flat.any())), None)


def state_of_rows(
    value: Tensor, batch: TensorDictBase, told: ToldCall, held: set[Key], *, stored: bool
) -> Slot | None:
    """The state of its form, of each row, which may stand first: one that was collected there, else
    one that is not ``held`` yet. Zeros that were not ``stored`` with the steps are none: whatever
    is trained on begins there."""
    own, found = value.detach().cpu(), list[tuple[bool, bool, Slot]]()
    for slot in told.carry.values():
        first = batch.get(slot.key)[:, 0]
        rows = replace(slot, axis=0, rest=tuple(own.shape[1:]))
        for one in (slot, rows) if slot.axis is not None else ():
            if own.ndim != len(one.rest) + 1 or not (stored or bool(own.any())):
                continue
            mine = one.found(own)
            if mine.shape[:1] == first.shape[:1] and mine.numel() == first.numel():
                same = torch.equal(mine.reshape(first.shape), first.to(mine.dtype))
                found.append((same, slot.key not in held, one))
    return max(found, key=lambda one: one[:2], default=(False, False, None))[2]


def left_behind(
    path: Path, held: Mapping[Path, Tensor], told: ToldCall, batch: TensorDictBase
) -> Storage | None:
    """What holds the state that the first step of each row left, if it is that, beside the one that
    the step began with."""
    value = held[path]
    others = [one for other, one in held.items() if other != path and one.shape == value.shape]
    for slot in told.carry.values() if bool(value.any()) else ():
        first = batch.get(slot.key)[:, 0]
        if not any(_is_state(one, slot, first) for one in others):
            continue
        key = ("next", *slot.key)
        left, mine = batch.get(key)[:, 0], slot.found(value.detach().cpu())
        if mine.shape[:1] != left.shape[:1] or mine.numel() != left.numel():
            continue
        same = (mine.flatten(1) == left.flatten(1).to(mine.dtype)).all(1)
        copies = [other for other, one in held.items() if torch.equal(one, value)]
        # Of two that hold it the first is what rows begin with, wrongly so.
        if float(same.double().mean()) >= MOSTLY and (len(copies) == 1 or copies[0] != path):
            return Storage(key, tuple(value.shape), value.dtype, at=0, slot=slot)
    return None


def _is_state(value: Tensor, slot: Slot, state: Tensor) -> bool:
    if slot.axis is None or value.ndim != len(slot.rest) + 1:
        return False
    mine = slot.found(value.detach().cpu())
    same = mine.numel() == state.numel() and torch.equal(
        mine.flatten(1), state.flatten(1).to(mine.dtype)
    )
    return same or not bool(value.any())
