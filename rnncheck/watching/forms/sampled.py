"""Variables of a script that hold a batch of collected steps, drawn out of a memory of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.along_rows import along_rows, beside_known, with_more_known
from rnncheck.watching.forms.carried_along import carried_along
from rnncheck.watching.forms.drawn_rows import drawn_rows
from rnncheck.watching.forms.held_as import ARRAYS, TENSORS, Scale, is_shifted_mask, scale_of
from rnncheck.watching.forms.laid_rows import LaidRows, empty_steps
from rnncheck.watching.forms.one_step import names_a_start, names_an_end
from rnncheck.watching.forms.plain_calls import (
    ACTION,
    ENDS,
    FLAG,
    MASK_OF_ROWS,
    MOSTLY,
    OBSERVATION,
    Slot,
    ToldCall,
    leaf_tensor,
)
from rnncheck.watching.forms.plain_pass import Drawn, behind_ends, recorded_steps
from rnncheck.watching.forms.storages import DONE, HeldPart, PerRow, Spoilt, Storage, ZeroState
from rnncheck.watching.forms.structures import Path, leaves_in
from rnncheck.watching.forms.time_axis import in_a_row, known_places, prints

_LEAST = 2  # steps of a row, and what they led to
_MOST_PARTS = 32  # of one variable: one that has more is the memory itself
_NEXT = ("next", "new", "after", "follow", "prime", "succ", "obs2")
_REWARD: Key = ("next", "reward")
_ENDED: tuple[Key, ...] = (DONE, ("next", ENDS[0]), ("next", ENDS[1]))
_FLAGS: tuple[Key, ...] = (*_ENDED, (FLAG,))


@dataclass
class SampledBatch:
    """``batch`` ``[rows, steps]``: what is trained on, begun anew where no state is given with it.
    ``doubts`` are parts with something of each of its steps or rows that nobody knows."""

    batch: TensorDictBase
    parts: dict[Path, HeldPart] = field(default_factory=dict)
    doubts: dict[Path, HeldPart] = field(default_factory=dict)
    from_starts: bool = True
    flagged: bool = False  # start flags are among the parts
    drawn: Drawn | None = None

    @property
    def likeness(self) -> tuple[int, int, int]:
        """How much of a step is among the parts, where of flags, which are alike, one counts; of
        how many steps; and with how many flags."""
        keys = {one.key for one in self.parts.values() if isinstance(one, Storage)}
        kinds = {(FLAG,) if key in (*_FLAGS, MASK_OF_ROWS) else key for key in keys}
        return len(kinds), self.batch.numel(), len(keys)

    @property
    def names(self) -> frozenset[str]:
        """The variables that hold something of every step."""
        parts = self.parts.items()
        held = ((path[0], one) for path, one in parts if not isinstance(one, ZeroState))
        return frozenset(name for name, one in held if getattr(one, "at", None) is None)

    @property
    def openings(self) -> frozenset[str]:
        """The variables that hold what each row begins with."""
        held = ((path[0], one) for path, one in self.parts.items() if isinstance(one, Storage))
        return frozenset(name for name, one in held if one.at == 0 and one.slot is not None)


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
        for laid in _laid(path, held, whole, told)
    ]
    return max(found, key=lambda one: one.likeness, default=None)


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


def _laid(
    path: Path, held: Mapping[Path, Tensor], whole: TensorDictBase, told: ToldCall
) -> Iterator[LaidRows]:
    """Where what it shows was seen: of all that it holds, or of all but the last one of each row;
    zeros that all that is ``held`` has behind the end of a row are none of it."""
    value = held[path]
    seen = whole.get(OBSERVATION)
    shape = tuple(seen.shape[2:])
    if int(np.prod(shape)) == 1 and value.ndim == 3:  # one number, in whatever dimensions
        shape = (1,)
    lead = tuple(value.shape[: value.ndim - len(shape)])
    fits = tuple(value.shape[value.ndim - len(shape) :]) == shape
    if not fits or len(lead) not in (1, 2) or not value.is_floating_point():
        return
    shown = value.detach().cpu().reshape(*lead, int(np.prod(shape))).to(seen.dtype)
    for time_first, rows in _in_rows(shown, held, whole, told):
        laid = shown.unsqueeze(0) if len(lead) == 1 else shown
        laid = laid.transpose(0, 1) if time_first else laid
        for longer in (False, True):
            steps = rows.shape[1] - longer
            if not longer and _ends_unknown(rows, laid):
                continue
            size = (steps, *lead[1:]) if time_first or len(lead) == 1 else (lead[0], steps)
            mine = rows[:, :steps]
            nothing = torch.zeros(mine.shape[:2], dtype=torch.bool)
            one = LaidRows(mine, size, time_first, longer, nothing)
            one = replace(one, empty=empty_steps(one, laid, held, whole))
            known = (mine[..., 0] >= 0)[~one.empty]
            if steps > 1 and float(known.double().mean()) >= MOSTLY:
                yield one


def _ends_unknown(rows: Tensor, laid: Tensor) -> bool:
    """Whether of each row the last thing that it shows alone was never acted on: it is what
    its last step led to."""
    shown = ~behind_ends((laid != 0).any(-1))
    last = (shown.sum(1) - 1).clamp_min(0)
    unknown = rows[..., 0] < 0
    ends = unknown[torch.arange(len(rows)), last]
    return rows.shape[1] > _LEAST and bool(ends.all()) and int((unknown & shown).sum()) == len(rows)


def _in_rows(
    shown: Tensor, held: Mapping[Path, Tensor], whole: TensorDictBase, told: ToldCall
) -> Iterator[tuple[bool, Tensor]]:
    """Where each of the observations was seen, ``[rows, steps, 2]``, and whether time comes first:
    by itself, or by those ahead of it in its row, where others show the same."""
    places = known_places((OBSERVATION,), [whole])
    at = [places.get(one, (-1, -1)) for one in prints(shown.flatten(0, -2))]
    grid = torch.tensor(at).reshape(*shown.shape[:-1], 2)
    if grid.ndim == 2:
        yield False, grid.unsqueeze(0)
        return
    time_first = in_a_row(grid, 0) > in_a_row(grid, 1)
    rows, laid = (one.transpose(0, 1) if time_first else one for one in (grid, shown))
    collected = whole.get(OBSERVATION).detach().cpu()
    rows = beside_known(rows, laid, collected)
    several = 2 * len(places) < whole.numel()
    if not several and bool((rows[..., 0] >= 0).all()):
        yield time_first, rows
        return
    given = (slot.key for slot in told.arguments.values() if slot.key != (OBSERVATION,))
    entries = [whole.get(key) for key in dict.fromkeys(((ACTION,), _REWARD, *given))]
    numbers = [one.detach().cpu() for one in held.values() if one.ndim > 1]
    found = dict[bool, Tensor]()
    for first in (False, True) if several else (time_first,):
        laid, *beside = (one.transpose(0, 1) if first else one for one in (shown, *numbers))
        steps = {laid.shape[1], laid.shape[1] - 1}  # it may show what the last one led to
        fitting = (one for one in beside if len(one) == len(laid) and one.shape[1] in steps)
        pairs = [(one, entries) for one in fitting]
        pairs += _openings(len(laid), held, whole, told)
        found[first] = along_rows(laid, collected, pairs)
    yield time_first, with_more_known(rows, found[time_first])
    if several:  # most of what was collected came more than once
        yield from found.items()


def _openings(
    rows: int, held: Mapping[Path, Tensor], whole: TensorDictBase, told: ToldCall
) -> Iterator[tuple[Tensor, list[Tensor]]]:
    """States of the first step of each row, ``[rows, 1, ...]``, and those that were collected."""
    for key, slot in told.carry.items():
        for value in held.values():
            if slot.axis is not None and value.ndim == len(slot.rest) + 1:
                mine = slot.found(value.detach().cpu())
                if mine.shape == (rows, *whole.get(key).shape[2:]):
                    yield mine.unsqueeze(1), [whole.get(key)]


def _told(
    observed: Path,
    laid: LaidRows,
    held: Mapping[Path, Tensor],
    arrays: set[Path],
    whole: TensorDictBase,
    told: ToldCall,
) -> SampledBatch:
    batch = recorded_steps(whole, laid.found, laid.empty)
    made = SampledBatch(
        batch,
        drawn=drawn_rows(
            held[observed], laid.found, whole, time_first=laid.time_first or len(laid.lead) == 1
        ),
    )
    shown = [one.key for one in told.arguments.values()]
    for path, value in held.items():
        of_what = ARRAYS if path in arrays else TENSORS
        own = value.shape == held[observed].shape and torch.equal(value, held[observed])
        own = own and (path == observed or not _is_next(path))
        steps = laid.of(laid.without_last(value.detach().cpu()) if own else value.detach().cpu())
        late = None if own or steps is not None else laid.from_second(value.detach().cpu())
        before = None if late is None else _entry(path, late, batch, shown, False)
        entry = None if steps is None else _entry(path, steps, batch, shown, own)
        together = len(path) > 1 and path[0] == observed[0]
        taken = {one.key for one in made.parts.values() if isinstance(one, Storage)}
        if entry is None and steps is not None and together:
            state = _as_state(steps, batch, told, taken)
            entry = None if state is None else (state, None)
        slot = _state(value, batch, told, taken, stored=together)
        if entry is not None and steps is not None:
            key, scale = entry
            if scale is None:
                like = batch.get(key)
                batch.set(key, steps.reshape(like.shape).to(like.dtype))
            made.flagged = made.flagged or key == (FLAG,)
            made.from_starts = made.from_starts and key not in told.carry
            one = _of_steps(value, entry, laid, of_what)
            made.parts[path] = replace(one, longer=own and laid.longer)
        elif steps is None and (along := carried_along(laid.ahead_of_last(value), batch, told)):
            made.parts[path] = replace(_of_steps(value, (along, None), laid, of_what), longer=True)
        elif before is not None and before[0] in (_REWARD, (ACTION,), *_ENDED):
            made.parts[path] = _one_late(value, before, laid, of_what)
        elif slot is not None and (left := _left_behind(path, held, told, batch)) is not None:
            made.parts[path] = left
        elif slot is not None:
            made.parts[path] = Storage(slot.key, tuple(value.shape), value.dtype, at=0, slot=slot)
            like = batch.get(slot.key)
            like[:, 0] = slot.found(value.detach().cpu()).reshape(like[:, 0].shape).to(like)
            made.from_starts = False
        elif (zero := _zeros(value, laid, told)) is not None:
            made.parts[path] = zero
        elif _weighs_rows(value, laid):
            made.parts[path] = weights = PerRow(value.detach(), of_what)
            weights.put(made.batch)
        elif _of_the_batch(value, laid):
            made.doubts[path] = Spoilt(value)
    for path in _constant_opposites(made, held):
        del made.parts[path]
    if made.from_starts and not made.flagged:
        made.batch = begun_anew(batch, told)
    return made


def _constant_opposites(made: SampledBatch, held: Mapping[Path, Tensor]) -> list[Path]:
    """What is one throughout, and no opposite of a flag that another part holds as it is: a mask of
    rows that are all as long says nothing of their ends."""
    flags = {
        path: one
        for path, one in made.parts.items()
        if isinstance(one, Storage) and one.key in _FLAGS and one.at is None
    }
    plain = {one.key for one in flags.values() if one.scale is None}
    turned = (path for path, one in flags.items() if one.scale is not None and one.key in plain)
    return [path for path in turned if bool((held[path] == held[path].flatten()[0]).all())]


def _one_late(
    value: Tensor, entry: tuple[Key, Scale | None], laid: LaidRows, of_what: str
) -> Storage:
    """What holds at each step what the one before it had; what stands at the first is alike in all
    rows."""
    first = value.detach().cpu().select(0 if laid.time_first or len(laid.lead) == 1 else 1, 0)
    edge = tuple((first if len(laid.lead) == 1 else first[0]).double().flatten().tolist())
    return replace(_of_steps(value, entry, laid, of_what), longer=True, late=True, edge=edge)


def _of_steps(
    value: Tensor, entry: tuple[Key, Scale | None], laid: LaidRows, of_what: str
) -> Storage:
    """What holds an entry of each step."""
    return Storage(
        entry[0],
        tuple(value.shape),
        value.dtype,
        of_what=of_what,
        rows_first=len(laid.lead) == 2 and not laid.time_first,
        scale=entry[1],
        rows=len(laid.found),
    )


def _entry(
    path: Path, mine: Tensor, batch: TensorDictBase, shown: list[Key], observed: bool
) -> tuple[Key, Scale | None] | None:
    """The entry of a step that it is: of several the one that its name tells."""
    if observed:
        return (OBSERVATION,), None
    if _is_next(path) and mine.shape == batch.get(OBSERVATION).shape:
        return ("next", OBSERVATION), None  # whatever it shows: that is asked
    keys: list[Key] = [(ACTION,), _REWARD, *_FLAGS, ("next", OBSERVATION), (OBSERVATION,), *shown]
    keys.append(MASK_OF_ROWS)
    flat = mine.reshape(*batch.shape, -1)
    mask = batch.get(MASK_OF_ROWS, None)
    data = torch.ones(batch.shape, dtype=torch.bool) if mask is None else mask[..., 0]
    found = list[tuple[float, bool, Key, Scale | None]]()
    for key in keys:
        if key not in batch.keys(True, True):
            continue
        theirs = batch.get(key).reshape(*batch.shape, -1)
        if theirs.shape != flat.shape:
            continue
        for scale in _scales(key, flat[data], theirs[data]):
            wanted = theirs.double() if scale is None else theirs.double() * scale[0] + scale[1]
            alike = torch.isclose(flat.double(), wanted, 1e-5, 1e-6).all(-1)
            share = float(alike[data].double().mean())
            if theirs.dtype == torch.bool and share < 1 and not bool(flat[data].diff(dim=0).any()):
                continue  # of flags, one that never changes is only what is the same
            if share >= MOSTLY and (key != MASK_OF_ROWS or bool(alike.all())):
                found.append((share, _is_named(path, key), key, scale))
    if not found:
        return None
    ends = names_an_end(path)
    flags = {key for _, _, key, _ in found if ends and key in _FLAGS}
    _, _, key, scale = max(found, key=lambda one: _rank(one, one[2] in flags))
    return key, scale


def _rank(
    one: tuple[float, bool, Key, Scale | None], flag: bool
) -> tuple[bool, bool, float, bool, bool, bool]:
    """Its name counts most beside the same bits, for flags that are seldom true are all alike; else
    how many are the same."""
    share, named, _, scale = one
    same = share == 1
    return same, same and named, share, named, flag, scale is None


def _scales(key: Key, mine: Tensor, theirs: Tensor) -> list[Scale | None]:
    if theirs.dtype == torch.bool:
        return [None, (-1.0, 1.0)]
    if key not in (_REWARD, (ACTION,)) or not mine.is_floating_point():
        return [None]
    scale = scale_of(mine, theirs.to(mine.dtype))
    return [None] if is_shifted_mask(mine, scale) else [None, scale]


def _is_named(path: Path, key: Key) -> bool:
    """Tells flags from each other, which are often all false."""
    name, own = path[-1].lower(), str(key[-1])
    begins = key == (FLAG,) and names_a_start(path)
    return begins or own in name or name.strip("_bs") in own or own[:4] in name


def _is_next(path: Path) -> bool:
    """Tells what is meant for the next observation from a copy of the one that a step had."""
    name = path[-1].lower()
    return name[:1] == "n" or any(word in name for word in _NEXT)


def _as_state(value: Tensor, batch: TensorDictBase, told: ToldCall, held: set[Key]) -> Key | None:
    """Of states that are stored beside each step the one that it is, whatever it shows: that of
    another step, or the first of its form that is not ``held``."""
    flat = value.reshape(*batch.shape, -1)
    fitting = [k for k in told.carry if batch.get(k).reshape(*batch.shape, -1).shape == flat.shape]
    for key in fitting if bool(flat.any()) else []:
        after = batch.get(("next", *key)).reshape(flat.shape)
        if float((flat == after.to(flat.dtype)).all(-1).double().mean()) >= MOSTLY / 2:
            return key
    return next((key for key in fitting if key not in held and bool(flat.any())), None)


def _state(
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


def _left_behind(
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


def _zeros(value: Tensor, laid: LaidRows, told: ToldCall) -> ZeroState | None:
    """What holds zeros for the states that rows begin with."""
    for slot in told.carry.values() if not bool(value.any()) else ():
        if slot.axis is not None and value.ndim == len(slot.rest) + 1:
            shape = (*slot.rest[: slot.axis], len(laid.found), *slot.rest[slot.axis :])
            if tuple(value.shape) == shape:
                return ZeroState(slot)
    return None


def _weighs_rows(value: Tensor, laid: LaidRows) -> bool:
    """Whether it is one number for each row, of which the largest is one, as the weights of a
    prioritised memory are."""
    rows = len(laid.found)
    if rows < 2 or value.numel() != rows or not value.is_floating_point() or value.requires_grad:
        return False
    return bool((value > 0).all()) and float(value.max()) == 1


def _of_the_batch(value: Tensor, laid: LaidRows) -> bool:
    """Whether it has something of each step or row."""
    rows, steps = laid.found.shape[:2]
    sizes = {rows * steps, *([rows] if rows > 1 else []), *([steps] if rows == 1 else [])}
    own = isinstance(value, torch.nn.Parameter)
    return not own and value.ndim > 0 and value.shape[0] in sizes
