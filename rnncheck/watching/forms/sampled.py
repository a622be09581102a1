"""Variables of a script that hold a batch of collected steps, drawn out of a memory of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.watching.forms.along_rows import along_rows, beside_known, with_more_known
from rnncheck.watching.forms.fewer_bits import observed_in_bits_of
from rnncheck.watching.forms.held_as import ARRAYS
from rnncheck.watching.forms.laid_rows import LaidRows, empty_steps
from rnncheck.watching.forms.listed_rows import (
    as_listed,
    listed_columns,
    lists_of_rows,
    with_listed,
)
from rnncheck.watching.forms.plain_calls import ACTION, MOSTLY, OBSERVATION, ToldCall, leaf_tensor
from rnncheck.watching.forms.recorded_rows import behind_ends
from rnncheck.watching.forms.sampled_entries import REWARD
from rnncheck.watching.forms.sampled_parts import SampledBatch, told_parts
from rnncheck.watching.forms.structures import Path, leaves_in
from rnncheck.watching.forms.time_axis import in_a_row, known_places, prints
from rnncheck.watching.forms.weights_apart import are_weights, weight_shapes_in

_LEAST = 2  # steps of a row, and what they led to
_MOST_PARTS = 32  # of one variable: one that has more is the memory itself


def sampled_batch(
    names: Mapping[str, Any], whole: TensorDictBase, told: ToldCall
) -> SampledBatch | None:
    """What they hold of the steps ``whole`` ``[rows, steps]``; None where none of them holds
    sequences of observations."""
    networks = weight_shapes_in(names.values())
    names = {name: one for name, one in names.items() if not are_weights(one, networks)}
    listed = {name: listed_columns(value) for name, value in names.items()}
    plain = {name: one for name, one in names.items() if not listed[name]}
    lists = lists_of_rows(plain, tuple(whole.get(OBSERVATION).shape[2:]))
    leaves = {path: one for path, one in _leaves(plain) if path[:-1] not in lists}
    held = {path: made for path, leaf in leaves.items() if (made := leaf_tensor(leaf)) is not None}
    arrays = {path for path, leaf in leaves.items() if isinstance(leaf, np.ndarray)}
    held |= {path: rows for path, (rows, _) in lists.items()}
    arrays |= {path for path, (_, of_what) in lists.items() if of_what == ARRAYS}
    for name, columns in listed.items():
        held |= {(name, *path): whole for path, (whole, _) in columns.items()}
        arrays |= {(name, *path) for path, (_, of_what) in columns.items() if of_what == ARRAYS}
    batches = [
        (laid.found, told_parts(path, laid, held, arrays, whole, told))
        for path, value in held.items()
        for laid in _laid(path, held, whole, told)
    ]
    several = [one for places, one in batches if _is_one_of_several(places, one, batches)]
    apart = {held[one.observed].data_ptr() for one in several}  # by name too, as a loop binds them
    batches = [pair for pair in batches if held[pair[1].observed].data_ptr() not in apart]
    acted = [places for places, one in batches if (ACTION,) in one.keys]
    found = [one for places, one in batches if not any(_holds(more, places) for more in acted)]
    likest = max(found, key=lambda one: one.likeness, default=None)
    if likest is not None:
        likest.parts = with_listed(likest.parts, lists)
        as_listed(likest, names, listed)
    return likest


def _is_one_of_several(
    places: Tensor, one: SampledBatch, batches: Sequence[tuple[Tensor, SampledBatch]]
) -> bool:
    """Whether what it observes is one in a list of such, which hold other steps: all of these are
    trained on, one after the other or side by side."""
    path = one.observed
    for theirs, other in batches:
        apart = [n for n, (a, b) in enumerate(zip(path, other.observed, strict=False)) if a != b]
        inside = len(path) == len(other.observed) and len(apart) == 1 and apart[0] > 0
        if inside and not _steps_in(places) & _steps_in(theirs):
            return True
    return False


def _steps_in(places: Tensor) -> set[tuple[int, int]]:
    return {(env, step) for env, step in places.flatten(0, -2).tolist() if env >= 0}


def _holds(places: Tensor, part: Tensor) -> bool:
    """Whether ``part`` ``[rows, steps, 2]`` are fewer steps of each row, up to the last one or to
    what that led to, as behind a burn-in."""
    if len(places) != len(part):
        return False
    ends = (one for one in (part, part[:, :-1]) if 0 < one.shape[1] < places.shape[1])
    return any(torch.equal(places[:, -one.shape[1] :], one) for one in ends)


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
    whole = observed_in_bits_of(value, whole)
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
    entries = [whole.get(key) for key in dict.fromkeys(((ACTION,), REWARD, *given))]
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
