"""Variables of a script that hold collected steps: of all of them, or of the first or last one, as
tensors, arrays, plain numbers or records of these."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor
from torch.nn.functional import one_hot

from rnncheck.pipeline.keys import REWARD_ADDED, Key
from rnncheck.watching.forms.held_as import TENSORS, Scale, handed
from rnncheck.watching.forms.one_hots import with_one_set
from rnncheck.watching.forms.plain_calls import (
    ACTION_BEFORE,
    FLAG,
    MASK_OF_ROWS,
    OF_STEP_BEFORE,
    WEIGHT_OF_ROWS,
    Slot,
)
from rnncheck.watching.forms.structures import Path, filled, leaves_in, records, sequence_like

DONE = ("next", "done")


@dataclass(frozen=True)
class Storage:
    """What holds entry ``key``: of all steps, time first, or with ``at`` of the first or the last
    one.

    ``listed`` has a list of one thing for each step; ``of_what`` are tensors, arrays or plain
    numbers. ``longer`` has one thing more than there are steps: what follows the last one, or
    ``edge``. ``late`` has ``edge`` first, or the state there, and at every step what the one before
    it gave. ``scale`` are the a and b of a x + b. ``graphed``: what it held had a graph. ``fresh``:
    a last state that is zero where the episode ended. ``added``: rewards to which the loop added,
    where a time limit cut an episode, the value of what followed: that is kept beside them. ``hot``
    is how many numbers there are of which a whole one sets one. ``ahead`` are the dimensions
    between those of the steps and of the envs, such as the layers of a state.
    """

    key: Key
    shape: tuple[int, ...]
    dtype: torch.dtype
    listed: bool = False
    at: int | None = None
    slot: Slot | None = None  # of a state
    of_what: str = TENSORS
    rows_first: bool = False
    scale: Scale | None = None
    longer: bool = False
    late: bool = False
    edge: tuple[float, ...] | None = None
    graphed: bool = False
    fresh: bool = False
    rows: int = 0  # of the script's own batch
    added: bool = False
    hot: int = 0
    ahead: int = 0

    def of(self, batch: TensorDictBase) -> Any:
        """What it holds for a batch ``[rows, steps]``."""
        value = batch.get(self.key)
        if self.added and REWARD_ADDED in batch.keys(True, True):
            value = value + batch.get(REWARD_ADDED)
        if self.hot:
            value = with_one_set(value, self.hot, batch.get(MASK_OF_ROWS, None))
        if self.slot is not None and self.at is not None:
            one = value[:, self.at]
            return self.slot.given(anew(one, batch) if self.fresh else one)
        if self.at is not None:
            wanted = self._of_rows(self.shape, len(value))
            last = value[:, self.at]
            one = self._scaled(anew(last, batch) if self.fresh else last)
            return handed(self._made(one, wanted), self.of_what, listed=False)
        value = self._scaled(value)
        if self.late:
            first = batch.get(self.key[1:])[:, :1] if self.edge is None else self._edge(value)
            value = torch.cat([first, value if self.longer else value[:, :-1]], 1)
        elif self.longer and self.edge is not None:
            value = torch.cat([value, self._edge(value).to(value.dtype)], 1)
        elif self.longer:
            value = self._and_behind(value, batch)
        if self.ahead:
            return handed(self._behind_others(value), self.of_what, listed=self.listed)
        lead = value.shape[:2] if self.rows_first else (value.shape[1],)
        laid = value if self.rows_first else value.transpose(0, 1)
        rest = self.shape[len(lead) :]
        whole = self._made(
            laid, (*lead, *(rest if self.rows_first else self._of_rows(rest, len(value))))
        )
        return handed(whole, self.of_what, listed=self.listed)

    @property
    def held(self) -> list[tuple[Key, str]]:
        """Its entry, and what the script holds it as."""
        return [(self.key, self.of_what)]

    def _behind_others(self, value: Tensor) -> Tensor:
        """``[rows, steps, ...]`` as ``[steps, ..., rows, ...]``."""
        rest = (*self.shape[1 : 1 + self.ahead], *self.shape[2 + self.ahead :])
        laid = value.transpose(0, 1).reshape(value.shape[1], len(value), *rest)
        whole = laid.movedim(1, 1 + self.ahead)
        return self._made(whole, tuple(whole.shape))

    def _of_rows(self, shape: tuple[int, ...], rows: int) -> tuple[int, ...]:
        """The shape with as many rows, where its first dimension is the rows."""
        return (rows, *shape[1:]) if shape and shape[0] == self.rows else shape

    def _scaled(self, value: Tensor) -> Tensor:
        return value if self.scale is None else value.double() * self.scale[0] + self.scale[1]

    def _edge(self, like: Tensor) -> Tensor:
        """``[rows, 1, ...]``: as it was, for other rows as for the first."""
        held = torch.tensor(self.edge, dtype=torch.float64)
        wanted = like[:, :1]
        fits = held.numel() == wanted.numel()
        own = held if fits else held[: wanted[0].numel()].repeat(len(wanted))
        return own.reshape(wanted.shape).to(like.dtype if like.is_floating_point() else held.dtype)

    def _and_behind(self, value: Tensor, batch: TensorDictBase) -> Tensor:
        """``[rows, steps + 1, ...]``: behind the last step of each row what it showed; rows that
        zeros follow are shorter."""
        after = batch.get(behind(self.key))
        if self.key == ACTION_BEFORE and after.numel() < value.numel():
            after = one_hot(after.reshape(value.shape[:2]).long(), value[0, 0].numel())
        after = self._scaled(after.reshape(value.shape)).to(value.dtype)
        mask = batch.get(MASK_OF_ROWS, None)
        if mask is None:
            return torch.cat([value, after[:, -1:]], 1)
        rows, count = torch.arange(len(value)), mask.reshape(*mask.shape[:2]).sum(1)
        whole = torch.cat([value, torch.zeros_like(value[:, :1])], 1)
        whole[rows, count] = after[rows, (count - 1).clamp_min(0)]
        return whole

    def _made(self, value: Tensor, shape: tuple[int, ...]) -> Tensor:
        kind = torch.get_default_dtype() if self.dtype == torch.float32 else self.dtype
        if not kind.is_floating_point and _is_in_between(value):  # a picture that was changed
            kind = value.dtype
        made = value.reshape(shape).to(kind).contiguous()  # for `view`, as the script's own is
        shared = made.untyped_storage().data_ptr() == value.untyped_storage().data_ptr()
        return made.clone() if shared else made  # lines may write into it


def _is_in_between(value: Tensor) -> bool:
    """Whether it has numbers that are no whole ones."""
    return value.is_floating_point() and bool((value != value.round()).any())


def anew(state: Tensor, batch: TensorDictBase) -> Tensor:
    """``state`` ``[rows, ...]`` behind the last step, zero where an episode ended with it."""
    ended = batch.get(DONE)[:, -1].reshape(len(state), *[1] * (state.ndim - 1))
    return torch.where(ended, torch.zeros_like(state), state)


def behind(key: Key) -> Key:
    """The entry that is ``key`` of the next step."""
    return DONE if key == (FLAG,) else OF_STEP_BEFORE.get(key, ("next", *key))


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

    @property
    def graphed(self) -> bool:
        """Whether something in it had a graph."""
        return any(one.graphed for one in self.columns.values())

    @property
    def held(self) -> list[tuple[Key, str]]:
        """Its entries, and what the script holds each as."""
        return [entry for one in self.columns.values() for entry in one.held]


@dataclass(frozen=True)
class RowRecords:
    """Lists of a record for each of several envs, and what each of their parts holds; ``like`` is
    the list of one record for each env, of the first step where there is one ``of_steps``."""

    columns: Mapping[Path, Storage]
    like: Any
    of_steps: Any = None  # the list of all steps
    graphed = False

    def of(self, batch: TensorDictBase) -> Any:
        """The records of a batch ``[rows, steps]``."""
        held = {path: one.of(batch) for path, one in self.columns.items()}
        if self.of_steps is None:
            return self._rows(held, batch.shape[0])
        steps = range(batch.shape[1])
        made = [self._rows({path: one[n] for path, one in held.items()}, len(batch)) for n in steps]
        return sequence_like(self.of_steps, made)

    def _rows(self, held: Mapping[Path, Any], rows: int) -> Any:
        first = self.like[0]
        made = [filled(first, {path: one[n] for path, one in held.items()}) for n in range(rows)]
        return sequence_like(self.like, made)

    @property
    def held(self) -> list[tuple[Key, str]]:
        """Its entries, and what the script holds each as."""
        return [entry for one in self.columns.values() for entry in one.held]


@dataclass(frozen=True)
class Spoilt:
    """Something of every step that nobody knows, with other values: what comes of it then shows
    whether it is read."""

    value: Any
    graphed = False

    @property
    def held(self) -> list[tuple[Key, str]]:
        """Nothing that is known."""
        return []

    def of(self, _batch: TensorDictBase) -> Any:
        """The same form, no number as it was."""
        return spoilt(self.value)


class OfNumbers(Spoilt):
    """The same of numbers that are of an episode, and of no step."""


@dataclass(frozen=True)
class PerRow:
    """One number for each row of a batch, which no step makes and each of them holds; rows without
    are lent those of the script's."""

    value: Tensor
    of_what: str = TENSORS
    graphed = False
    held = ()

    def put(self, batch: TensorDictBase) -> None:
        """Into a batch of the script's rows."""
        wide = self.value.cpu().reshape(-1, 1, 1).expand(*batch.shape, 1)
        batch.set(WEIGHT_OF_ROWS, wide.clone())

    def of(self, batch: TensorDictBase) -> Any:
        """As many as there are rows."""
        held = batch.get(WEIGHT_OF_ROWS, None)
        index = torch.arange(batch.shape[0]) % len(self.value)
        value = self.value.cpu()[index] if held is None else held[:, 0].reshape(len(held))
        shape = (-1, *self.value.shape[1:])
        given = value.reshape(shape).to(self.value)
        return handed(given, self.of_what, listed=False)


@dataclass(frozen=True)
class RowLengths:
    """Of each row of a batch how many of its steps are data, and as many ``more``: what pads rows
    hands that on with them."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    more: int = 0
    of_what: str = TENSORS
    graphed = False
    held = ()

    def of(self, batch: TensorDictBase) -> Any:
        """As the mask of a batch ``[rows, steps]`` says, where it has one."""
        rows, steps = batch.shape
        mask = batch.get(MASK_OF_ROWS, None)
        counts = torch.full((rows,), steps) if mask is None else mask.reshape(rows, steps).sum(1)
        given = (counts + self.more).reshape(-1, *self.shape[1:]).to(self.dtype)
        return handed(given, self.of_what, listed=False)


@dataclass(frozen=True)
class ZeroState:
    """Zeros that the rows of a batch begin with in the place of a state."""

    slot: Slot
    graphed = False
    held = ()

    def of(self, batch: TensorDictBase) -> Any:
        """For as many rows."""
        return self.slot.given(torch.zeros(batch.shape[0], *self.slot.rest))


@dataclass(frozen=True)
class Tail:
    """A list that goes on from rollout to rollout: behind what was ``before``, the steps."""

    before: Any
    steps: Storage
    graphed = False

    def of(self, batch: TensorDictBase) -> Any:
        """Its last steps are those of the batch."""
        return sequence_like(self.before, [*self.before, *self.steps.of(batch)])

    @property
    def held(self) -> list[tuple[Key, str]]:
        """Its entry, and what the script holds it as."""
        return self.steps.held


@dataclass(frozen=True)
class PieceStates:
    """The states that acting had where each of ``pieces`` of one length begins, in a first
    dimension."""

    slot: Slot
    pieces: int
    graphed = False

    def of(self, batch: TensorDictBase) -> Any:
        """Those of a batch ``[rows, steps]``."""
        length, states = max(batch.shape[1] // self.pieces, 1), batch.get(self.slot.key)
        given = [self.slot.given(states[:, n * length]) for n in range(self.pieces)]
        return torch.stack(given) if self.slot.of_what == TENSORS else np.stack(given)

    @property
    def held(self) -> list[tuple[Key, str]]:
        """Its entry, and what the script holds it as."""
        return [(self.slot.key, self.slot.of_what)]


@dataclass(frozen=True)
class Reach:
    """Some steps in a row, the same of each row; ``to_the_end`` of longer rows as well."""

    begin: int
    length: int
    to_the_end: bool = False

    def of(self, batch: TensorDictBase) -> TensorDictBase:
        """``[rows, length]`` of a batch ``[rows, steps]``."""
        end = None if self.to_the_end else self.begin + self.length
        return batch[:, self.begin : end]


class _OfPart:
    """What holds its steps as ``part`` does."""

    part: Storage | Records | RowRecords | Spoilt

    @property
    def graphed(self) -> bool:
        """Whether something in it had a graph."""
        return self.part.graphed

    @property
    def held(self) -> list[tuple[Key, str]]:
        """Its entries, and what the script holds each as."""
        return self.part.held


@dataclass(frozen=True)
class OfSteps(_OfPart):
    """What holds something of some steps of each row, such as those behind a burn-in, as ``part``
    does of all."""

    reach: Reach
    part: Storage | Records | RowRecords | Spoilt

    def of(self, batch: TensorDictBase) -> Any:
        """What it holds for a batch ``[rows, steps]``."""
        return self.part.of(self.reach.of(batch))


class OfEpisode(OfSteps):
    """The same of an episode, in a list of such: its steps are some of the one row."""


@dataclass(frozen=True)
class OfShare(_OfPart):
    """The same of one of ``count`` stretches that a row consists of, all of a length."""

    number: int
    count: int
    part: Storage | Records | RowRecords | Spoilt

    def of(self, batch: TensorDictBase) -> Any:
        """What it holds for a batch ``[rows, steps]``."""
        length = batch.shape[1] // self.count
        return self.part.of(batch[:, self.number * length : (self.number + 1) * length])


@dataclass(frozen=True)
class WithoutLast(_OfPart):
    """A list of one thing for each step, in which what ``part`` has of the last one is missing: the
    lines put that in themselves."""

    part: Storage | Records

    def of(self, batch: TensorDictBase) -> Any:
        """What it holds for a batch ``[rows, steps]``."""
        whole = self.part.of(batch)
        return sequence_like(whole, list(whole)[:-1])


HeldPart = (
    Storage
    | Records
    | RowRecords
    | Spoilt
    | Tail
    | PerRow
    | RowLengths
    | ZeroState
    | PieceStates
    | OfSteps
    | OfShare
    | WithoutLast
)


def spoilt(value: Any) -> Any:
    """Not a number, where a number can be that; else another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return float("nan")
    if isinstance(value, np.ndarray):
        return _spoilt(torch.as_tensor(value)).numpy()
    if isinstance(value, Tensor):
        return _spoilt(value.detach())
    if isinstance(value, (list, tuple, deque)):
        return sequence_like(value, [spoilt(one) for one in value])
    return filled(value, {path: spoilt(one) for path, one in leaves_in(value)}, records)


def _spoilt(value: Tensor) -> Tensor:
    if value.dtype == torch.bool:
        return ~value
    if value.is_floating_point():
        return torch.full_like(value, torch.nan)
    return value.flatten().roll(1).reshape(value.shape)
