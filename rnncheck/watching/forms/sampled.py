"""Variables of a script that hold a batch of collected steps, drawn out of a memory of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.held_as import ARRAYS, TENSORS, Scale, scale_of
from rnncheck.watching.forms.plain_calls import (
    ACTION,
    ENDS,
    FLAG,
    MOSTLY,
    OBSERVATION,
    Slot,
    ToldCall,
    leaf_tensor,
)
from rnncheck.watching.forms.plain_pass import recorded_steps
from rnncheck.watching.forms.storages import DONE, HeldPart, Spoilt, Storage
from rnncheck.watching.forms.structures import Path, leaves_in
from rnncheck.watching.forms.time_axis import in_a_row, known_places, prints

_MOST_PARTS = 32  # of one variable: one that has more is the memory itself
_NEXT = ("next", "new", "after", "follow", "prime", "succ", "obs2")
_REWARD: Key = ("next", "reward")
_FLAGS: tuple[Key, ...] = (DONE, ("next", ENDS[0]), ("next", ENDS[1]), (FLAG,))


@dataclass
class SampledBatch:
    """``batch`` ``[rows, steps]``: what is trained on, begun anew where no state is given with it.
    ``doubts`` are parts with something of each of its steps or rows that nobody knows."""

    batch: TensorDictBase
    parts: dict[Path, HeldPart] = field(default_factory=dict)
    doubts: dict[Path, HeldPart] = field(default_factory=dict)
    from_starts: bool = True
    flagged: bool = False  # start flags are among the parts

    @property
    def parted(self) -> int:
        """How much of a step is among the parts."""
        return len({one.key for one in self.parts.values() if isinstance(one, Storage)})

    @property
    def names(self) -> frozenset[str]:
        """The variables that hold something of every step."""
        held = ((path[0], one) for path, one in self.parts.items())
        return frozenset(name for name, one in held if getattr(one, "at", None) is None)


@dataclass(frozen=True)
class _Laid:
    """Where the steps of a variable were collected, ``found`` ``[rows, steps, 2]``. ``longer``: it
    also holds what the last step showed."""

    found: Tensor
    lead: tuple[int, ...]
    time_first: bool
    longer: bool = False

    def of(self, value: Tensor) -> Tensor | None:
        """``[rows, steps, ...]`` of something of each of these steps; None if it is not that."""
        if tuple(value.shape[: len(self.lead)]) != self.lead:
            return None
        if len(self.lead) == 1:
            return value.unsqueeze(0)
        return value.transpose(0, 1) if self.time_first else value


def sampled_batch(
    names: Mapping[str, Any], whole: TensorDictBase, told: ToldCall
) -> SampledBatch | None:
    """What they hold of the steps ``whole`` ``[rows, steps]``; None where none of them holds
    sequences of observations."""
    leaves = dict(_leaves(names))
    held = {path: made for path, leaf in leaves.items() if (made := leaf_tensor(leaf)) is not None}
    arrays = {path for path, leaf in leaves.items() if isinstance(leaf, np.ndarray)}
    found = [
        _told(path, laid, held, arrays, whole, told)
        for path, value in held.items()
        for laid in _laid(value, whole)
    ]
    return max(found, key=lambda one: (one.parted, one.batch.numel()), default=None)


def begun_anew(batch: TensorDictBase, told: ToldCall) -> TensorDictBase:
    """The batch with every row begun there, with the state that acting begins with."""
    made = batch.clone()
    made.get(FLAG)[:, 0] = True
    for key in told.carry:
        made.get(key)[:, 0] = 0
    return made


def _leaves(names: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for name, value in names.items():
        many = isinstance(value, (list, tuple, dict, deque)) and len(value) > _MOST_PARTS
        if not many and not isinstance(value, deque):
            for path, leaf in leaves_in({name: value}):
                if isinstance(leaf, (Tensor, np.ndarray)):
                    yield path, leaf


def _laid(value: Tensor, whole: TensorDictBase) -> Iterator[_Laid]:
    """Where what it shows was seen: of all that it holds, or of all but the last one of each
    row."""
    seen = whole.get(OBSERVATION)
    shape = tuple(seen.shape[2:])
    lead = tuple(value.shape[: value.ndim - len(shape)])
    fits = tuple(value.shape[value.ndim - len(shape) :]) == shape
    if not fits or len(lead) not in (1, 2) or not value.is_floating_point():
        return
    places = known_places((OBSERVATION,), [whole])
    flat = value.detach().cpu().reshape(-1, int(np.prod(shape))).to(seen.dtype)
    found = torch.tensor([places.get(one, (-1, -1)) for one in prints(flat)])
    grid = found.reshape(*lead, 2)
    time_first = len(lead) == 2 and in_a_row(grid, 0) > in_a_row(grid, 1)
    rows = grid.unsqueeze(0) if len(lead) == 1 else grid.transpose(0, 1) if time_first else grid
    for longer in (False, True):
        steps = rows.shape[1] - longer
        mine = rows[:, :steps]
        if steps > 1 and float((mine[..., 0] >= 0).double().mean()) >= MOSTLY:
            size = (
                (steps,) if len(lead) == 1 else (steps, lead[1]) if time_first else (lead[0], steps)
            )
            yield _Laid(mine, size, time_first, longer)


def _told(
    observed: Path,
    laid: _Laid,
    held: Mapping[Path, Tensor],
    arrays: set[Path],
    whole: TensorDictBase,
    told: ToldCall,
) -> SampledBatch:
    batch = recorded_steps(whole, laid.found)
    made = SampledBatch(batch)
    shown = [one.key for one in told.arguments.values() if one.key not in told.carry]
    for path, value in held.items():
        of_what = ARRAYS if path in arrays else TENSORS
        steps = laid.of(value.detach().cpu())
        own = path == observed
        if own and laid.longer:
            steps = laid.of(
                value.detach()
                .cpu()
                .narrow(int(not laid.time_first and len(laid.lead) > 1), 0, laid.found.shape[1])
            )
        entry = None if steps is None else _entry(path, steps, batch, shown, own)
        slot = _state(value, batch, told, stored=len(path) > 1 and path[0] == observed[0])
        if entry is not None and steps is not None:
            key, scale = entry
            if scale is None:
                like = batch.get(key)
                batch.set(key, steps.reshape(like.shape).to(like.dtype))
            made.flagged = made.flagged or key == (FLAG,)
            made.parts[path] = Storage(
                key,
                tuple(value.shape),
                value.dtype,
                of_what=of_what,
                rows_first=len(laid.lead) == 2 and not laid.time_first,
                scale=scale,
                longer=own and laid.longer,
                rows=len(laid.found),
            )
        elif slot is not None:
            made.parts[path] = Storage(slot.key, tuple(value.shape), value.dtype, at=0, slot=slot)
            batch.get(slot.key)[:, 0] = slot.found(value.detach().cpu()).to(batch.get(slot.key))
            made.from_starts = False
        elif _of_the_batch(value, laid):
            made.doubts[path] = Spoilt(value)
    if made.from_starts and not made.flagged:
        made.batch = begun_anew(batch, told)
    return made


def _entry(
    path: Path, mine: Tensor, batch: TensorDictBase, shown: list[Key], observed: bool
) -> tuple[Key, Scale | None] | None:
    """The entry of a step that it is: of several the one that its name tells."""
    if observed:
        return (OBSERVATION,), None
    if _is_next(path) and mine.shape == batch.get(OBSERVATION).shape:
        return ("next", OBSERVATION), None  # whatever it shows: that is asked
    keys: list[Key] = [(ACTION,), _REWARD, *_FLAGS, ("next", OBSERVATION), (OBSERVATION,), *shown]
    flat = mine.reshape(*batch.shape, -1)
    found = list[tuple[float, bool, Key, Scale | None]]()
    for key in keys:
        if key not in batch.keys(True, True):
            continue
        theirs = batch.get(key).reshape(*batch.shape, -1)
        if theirs.shape != flat.shape:
            continue
        for scale in _scales(key, flat, theirs):
            wanted = theirs.double() if scale is None else theirs.double() * scale[0] + scale[1]
            alike = torch.isclose(flat.double(), wanted, 1e-5, 1e-6).all(-1)
            share = float(alike.double().mean())
            if share >= MOSTLY:
                found.append((share, _is_named(path, key), key, scale))
    if not found:
        return None
    _, _, key, scale = max(found, key=lambda one: (one[0], one[1], one[3] is None))
    return key, scale


def _scales(key: Key, mine: Tensor, theirs: Tensor) -> list[Scale | None]:
    if theirs.dtype == torch.bool:
        return [None, (-1.0, 1.0)]
    scaled = key in (_REWARD, (ACTION,)) and mine.is_floating_point()
    return [None, scale_of(mine, theirs.to(mine.dtype))] if scaled else [None]


def _is_named(path: Path, key: Key) -> bool:
    """Tells flags from each other, which are often all false."""
    name, own = path[-1].lower(), str(key[-1])
    return own in name or name.strip("_bs") in own or own[:4] in name


def _is_next(path: Path) -> bool:
    """Tells what is meant for the next observation from a copy of the one that a step had."""
    name = path[-1].lower()
    return name[:1] == "n" or any(word in name for word in _NEXT)


def _state(value: Tensor, batch: TensorDictBase, told: ToldCall, *, stored: bool) -> Slot | None:
    """The state of its form, of each row. Zeros that were not ``stored`` with the steps are none:
    whatever is trained on begins there."""
    for slot in told.carry.values():
        if slot.axis is None or value.ndim != len(slot.rest) + 1:
            continue
        mine = slot.found(value.detach().cpu())
        if mine.shape == batch.get(slot.key)[:, 0].shape and (stored or bool(mine.any())):
            return slot
    return None


def _of_the_batch(value: Tensor, laid: _Laid) -> bool:
    """Whether it has something of each step or row."""
    rows, steps = laid.found.shape[:2]
    sizes = {rows * steps, *([rows] if rows > 1 else []), *([steps] if rows == 1 else [])}
    own = isinstance(value, torch.nn.Parameter)
    return not own and value.ndim > 0 and value.shape[0] in sizes
