"""What of a script's variables holds collected steps: of all of them, or of the first or last one,
as tensors, arrays, plain numbers or records of these."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_items
from rnncheck.watching.forms.held_as import ARRAYS, MANY, NUMBERS, TENSORS, gathered, handed
from rnncheck.watching.forms.plain_calls import FLAG, Slot, ToldCall, leaf_tensor
from rnncheck.watching.forms.structures import Path, filled, leaves, records, sequence_like, walked

_DONE, _REWARD = ("next", "done"), ("next", "reward")
_LAST: tuple[Key, ...] = (("next", "observation"), _DONE)
_NUMBERS: tuple[Key, ...] = (_REWARD, _DONE, ("next", "terminated"), ("next", "truncated"), (FLAG,))
_NUMBERS_LAST = _NUMBERS[:-1]
_CLOSE = 1e-5  # relative: a reward that was scaled in float32

Scale = tuple[float, float]


@dataclass(frozen=True)
class Storage:
    """What holds entry ``key``: of all steps, time first, or with ``at`` of the first or the last
    one. ``listed`` has a list of one thing for each step; ``of_what`` are tensors,
    arrays or plain numbers; ``ahead`` has what follows the last step as well; ``scale`` are the
    a and b of a x + b."""

    key: Key
    shape: tuple[int, ...]
    dtype: torch.dtype
    listed: bool = False
    at: int | None = None
    slot: Slot | None = None  # of a state
    of_what: str = TENSORS
    ahead: bool = False
    rows_first: bool = False
    scale: Scale | None = None

    def of(self, batch: TensorDictBase) -> Any:
        """What it holds for a batch ``[rows, steps]``."""
        value = batch.get(self.key)
        if self.slot is not None and self.at is not None:
            return self.slot.given(value[:, self.at])
        if self.at is not None:
            return handed(self._made(value[:, self.at], self.shape), self.of_what, listed=False)
        if self.ahead:
            value = torch.cat([value, batch.get(_behind(self.key))[:, -1:].to(value.dtype)], 1)
        lead = value.shape[:2] if self.rows_first else (value.shape[1],)
        laid = value if self.rows_first else value.transpose(0, 1)
        whole = self._made(laid, (*lead, *self.shape[len(lead) :]))
        return handed(whole, self.of_what, listed=self.listed)

    def _made(self, value: Tensor, shape: tuple[int, ...]) -> Tensor:
        kind = torch.get_default_dtype() if self.dtype == torch.float32 else self.dtype
        if self.scale is not None:
            value = value.double() * self.scale[0] + self.scale[1]
        return value.reshape(shape).to(kind)


@dataclass(frozen=True)
class Records:
    """A list of one record for each step, and what each of their parts holds; ``like`` is a list of
    the first of them."""

    columns: Mapping[Path, Storage]
    like: Any

    def of(self, batch: TensorDictBase) -> Any:
        """The records of a batch ``[rows, steps]``."""
        held = {path: one.of(batch) for path, one in self.columns.items()}
        parts = [{path: held[path][n] for path in held} for n in range(batch.shape[1])]
        return sequence_like(self.like, [filled(self.like[0], one) for one in parts])


@dataclass
class Storages:
    """``parts`` by the way there, from a variable's name on; ``unknown`` is what holds something of
    every step, and nobody knows what."""

    parts: dict[Path, Storage | Records] = field(default_factory=dict)
    unknown: list[Path] = field(default_factory=list)

    @property
    def keys(self) -> set[Key]:
        """The entries that are held."""
        found = set[Key]()
        for one in self.parts.values():
            held = one.columns.values() if isinstance(one, Records) else [one]
            found |= {storage.key for storage in held}
        return found


def storages_in(
    names: Mapping[str, Any], batch: TensorDictBase, told: ToldCall, stepped: frozenset[str]
) -> Storages:
    """The variables that hold what was collected; those ``stepped`` were bound where the env was
    stepped, so that a plain number among them may be the last step's."""
    found = Storages()

    def looks(path: Path, value: Any) -> bool:
        if _of_every_step(value, batch):
            if not _note(found, path, value, batch) and not _goes_on_evenly(value):
                found.unknown.append(path)
            return True
        if isinstance(value, (Tensor, np.ndarray, bool, int, float)):
            plain = not isinstance(value, (Tensor, np.ndarray))
            one = (
                None
                if plain and path[-1] not in stepped
                else _of_one_step(path, value, batch, told)
            )
            if one is not None:
                found.parts[path] = one
            return True
        return False

    for name, value in names.items():
        walked(value, looks, (name,))
    return found


def _of_every_step(value: Any, batch: TensorDictBase) -> bool:
    """Whether it has as many things as there are steps, or one more."""
    rows, steps = batch.shape
    if isinstance(value, (list, tuple, deque)):
        return len(value) in (steps, steps + 1)
    if not isinstance(value, (Tensor, np.ndarray)) or value.ndim == 0:
        return False
    first = value.shape[0] in (steps, steps + 1)
    return first or (value.ndim > 1 and value.shape[0] == rows and value.shape[1] - steps in (0, 1))


def _note(found: Storages, path: Path, value: Any, batch: TensorDictBase) -> bool:
    """Whether what it holds is known, or no numbers at all."""
    listed = isinstance(value, (list, tuple, deque))
    if isinstance(value, Tensor):
        whole, of_what = value, TENSORS
    else:
        made, of_what = gathered(value)
        if made is None:
            return not listed or _note_records(found, path, value, batch)
        whole = made
    one = _of_all_steps(path, whole, batch)
    if one is not None:
        found.parts[path] = replace(one, listed=listed, of_what=of_what)
    return one is not None or batch.shape[1] < MANY


def _note_records(found: Storages, path: Path, items: Any, batch: TensorDictBase) -> bool:
    """The same of a list of records, column by column."""
    told = [dict(leaves(one)) if records(one) else {} for one in items]
    names = list(told[0])
    if not names or any(list(one) != names for one in told):
        return True
    columns, known = dict[Path, Storage](), True
    for name in names:
        whole, of_what = gathered([one[name] for one in told])
        one = None if whole is None else _of_all_steps((*path, *name), whole, batch)
        if one is not None and not one.ahead:
            columns[name] = replace(one, listed=True, of_what=of_what)
        elif whole is not None:
            known = known and _goes_on_evenly(whole)
    if columns:
        found.parts[path] = Records(columns, sequence_like(items, [items[0]]))
    return known


def _goes_on_evenly(value: Any) -> bool:
    """Whether it is a row such as 0, 1, 2 or 1, γ, γ²: no env gives that."""
    held = leaf_tensor(value) if isinstance(value, (Tensor, np.ndarray)) else None
    if held is None and isinstance(value, (list, tuple, deque)):
        held = gathered(value)[0]
    if held is None or held.numel() < 3 or held.is_complex():
        return False
    row = held.detach().cpu().double().flatten()
    steps, ratios = row.diff(), row[1:] / row[:-1]
    alike = (torch.allclose(one, one[:1].expand_as(one), rtol=_CLOSE) for one in (steps, ratios))
    return bool(steps.abs().max() > 0) and any(alike)


def _of_all_steps(path: Path, value: Tensor, batch: TensorDictBase) -> Storage | None:
    """The entry that is most like it by its name, of those that it may be."""
    rows, steps = batch.shape
    rows_first = value.shape[0] not in (steps, steps + 1)
    laid = value.detach().cpu().transpose(0, 1) if rows_first else value.detach().cpu()
    ahead = laid.shape[0] == steps + 1
    if laid.numel() % (rows * laid.shape[0]):
        return None
    mine = laid.reshape(laid.shape[0], rows, -1)
    found = list[Storage]()
    for key, scale in _fitting(mine[:steps], batch):
        one = Storage(key, tuple(value.shape), value.dtype, ahead=ahead, rows_first=rows_first)
        one = replace(one, scale=scale)
        if not ahead or _goes_on(one, value, batch):
            found.append(one)
    return max(found, key=lambda one: _likeness(path, one), default=None)


def _fitting(mine: Tensor, batch: TensorDictBase) -> Iterator[tuple[Key, Scale | None]]:
    """The entries that ``mine`` ``[steps, rows, …]`` may be, as they are or scaled."""
    for key, entry in tensor_items(batch):
        theirs = entry.transpose(0, 1).reshape(*mine.shape[:2], -1)
        begun = int(key == (FLAG,))  # acting begins there, flagged or not
        if mine.shape != theirs.shape:
            continue
        if torch.equal(mine[begun:], theirs[begun:].to(mine.dtype)):
            yield key, None
        elif key in _NUMBERS and (scale := _scale(mine[begun:], theirs[begun:])) is not None:
            yield key, scale


def _scale(mine: Tensor, theirs: Tensor) -> Scale | None:
    """The a and b with which ``mine`` is a x + b of ``theirs``; of rewards that are always alike
    the factor, of flags that never are set their opposite."""
    held, given = mine.double().flatten(), theirs.double().flatten()
    low, high = int(given.argmin()), int(given.argmax())
    if given[low] != given[high]:
        factor = float((held[high] - held[low]) / (given[high] - given[low]))
        scale = (factor, float(held[low] - factor * given[low]))
    elif theirs.dtype == torch.bool:
        scale = (-1.0, 1.0)
    elif given[low] != 0:
        scale = (float(held[low] / given[low]), 0.0)
    else:
        return None
    fits = torch.allclose(given * scale[0] + scale[1], held, rtol=_CLOSE, atol=0.0)
    return scale if fits and scale[0] != 0 else None


def _goes_on(one: Storage, value: Tensor, batch: TensorDictBase) -> bool:
    """Whether behind the last step it holds what followed."""
    if _behind(one.key) not in batch.keys(True, True):
        return False
    made = one.of(batch)
    return torch.equal(made.to(value.dtype), value.detach().cpu())


def _behind(key: Key) -> Key:
    """The entry that is ``key`` of the next step."""
    return _DONE if key == (FLAG,) else ("next", *key)


def _likeness(path: Path, one: Storage) -> tuple[bool, bool]:
    """Whether the name says so, and whether it is the entry as it is."""
    name = path[-1].lower()
    turned = one.scale is not None and one.scale[0] < 0
    opposite = any(word in name for word in ("mask", "not", "non", "alive", "continue"))
    known = str(one.key[-1])
    named = opposite if turned else known in name or name.rstrip("s") in known
    return named, one.scale is None


def _of_one_step(path: Path, value: Any, batch: TensorDictBase, told: ToldCall) -> Storage | None:
    """What acting began with, or what was observed last."""
    held = leaf_tensor(value)
    if held is None:
        return None
    array = isinstance(value, np.ndarray)
    if not isinstance(value, (Tensor, np.ndarray)):
        return _last(held, batch, _NUMBERS_LAST, NUMBERS)
    found = list[Storage]()
    for key, slot in told.carry.items():
        for at, entry in ((0, key), (-1, ("next", *key))):
            wanted = replace(slot, of_what=TENSORS).given(batch.get(entry)[:, at])
            if wanted.shape == held.shape and _equal(held, wanted):
                own = replace(slot, of_what=ARRAYS if array else TENSORS)
                one = Storage(entry, tuple(held.shape), held.dtype, at=at, slot=own)
                if key[0].endswith("_".join(path)) or key[0].endswith(path[-1]):
                    return one  # of states that are alike, such as zeros
                found.append(one)
    return found[0] if found else _last(held, batch, _LAST, ARRAYS if array else TENSORS)


def _last(
    held: Tensor, batch: TensorDictBase, keys: tuple[Key, ...], of_what: str
) -> Storage | None:
    for key in keys:
        last = batch.get(key)[:, -1]
        alike = held.is_floating_point() == last.is_floating_point()
        if held.numel() == last.numel() and alike and _same_rows(held, last, batch):
            return Storage(key, tuple(held.shape), held.dtype, at=-1, of_what=of_what)
    return None


def _same_rows(held: Tensor, last: Tensor, batch: TensorDictBase) -> bool:
    """Whether it is that for each env; one whose episode ended shows what came next, which is
    another's."""
    rows = len(last)
    alike = held.detach().cpu().reshape(rows, -1) == last.to(held.dtype).reshape(rows, -1)
    ended = batch.get(_DONE)[:, -1].reshape(rows) & last.is_floating_point()
    return bool((alike.all(1) | ended).all()) and not bool(ended.all() and not alike.all())


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.detach().cpu(), other.detach().cpu().to(one.dtype))
