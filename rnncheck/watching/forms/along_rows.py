"""Where rows of steps were collected, told by what their steps show one after the other: in envs
such as grids and corridors many steps show the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from rnncheck.watching.forms.time_axis import prints

Array = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
# Numbers of the rows' steps, or of their first ones alone, and what they may be of collected.
Beside = tuple[Tensor, Sequence[Tensor]]

_RUNS = 32  # of each row that are looked at, the longest first: chosen


def along_rows(shown: Tensor, collected: Tensor, beside: Iterable[Beside] = ()) -> Tensor:
    """Row and step ``[rows, steps, 2]`` of what ``shown`` ``[rows, steps, ...]`` holds of
    ``collected`` ``[envs, time, ...]``: a run from the first step of each row on, -1 behind it.
    Of the longest ones the one at which most is alike that stands ``beside``: zeros that fill a
    row up may be what was shown elsewhere."""
    found = torch.full((*shown.shape[:2], 2), -1)
    if not _may_begin(shown, collected):
        return found
    numbers = dict[bytes, int]()
    theirs = _numbered(collected, numbers, add=True)
    pairs = [(_flat(mine), [_flat(one) for one in others]) for mine, others in beside]
    for row, mine in enumerate(_numbered(shown, numbers, add=False)):
        runs = _runs(mine, theirs, _from_its_state(row, mine[0], theirs, pairs))
        if not runs:
            continue
        length, (env, first) = max(
            runs, key=lambda one: (_alike(row, one[1], one[0], pairs), one[0])
        )
        found[row, :length, 0] = int(env)
        found[row, :length, 1] = torch.arange(length) + int(first)
    return found


def _may_begin(shown: Tensor, collected: Tensor) -> bool:
    """Whether the first number of some row is the first one of a step that was collected: what is
    no observation at all, such as a state, is told soon."""
    mine, theirs = (_flat(one)[..., :1].double() for one in (shown[:, :1], collected))
    return bool(torch.isin(mine, theirs).any())


def beside_known(found: Tensor, shown: Tensor, collected: Tensor) -> Tensor:
    """``found`` ``[rows, steps, 2]``, with what other steps show as well, next to a known step of
    its row: it is the one that was collected next to that, if that shows the same."""
    mine, theirs = _flat(shown), _flat(collected)
    filled, last = found.clone(), found.shape[1] - 1
    unknown: list[int] = (found[..., 0] < 0).any(0).nonzero().flatten().tolist()
    for way, order in ((1, unknown), (-1, unknown[::-1])):
        for step in (one for one in order if 0 <= one - way <= last):
            env, at = filled[:, step - way].unbind(-1)
            at = at + way
            inside = (env >= 0) & (filled[:, step, 0] < 0) & (at >= 0) & (at < theirs.shape[1])
            place = env.clamp_min(0), at.clamp(0, theirs.shape[1] - 1)
            same = inside & (theirs[place] == mine[:, step]).all(-1)
            filled[same, step] = torch.stack(place, -1)[same]
    return filled


def with_more_known(found: Tensor, others: Tensor) -> Tensor:
    """``found`` ``[rows, steps, 2]``, with the rows of the ``others`` in which more is known."""
    more = (others[..., 0] >= 0).sum(1) > (found[..., 0] >= 0).sum(1)
    return torch.where(more[:, None, None], others, found)


def _flat(values: Tensor) -> Tensor:
    return values.reshape(*values.shape[:2], -1)


def _numbered(values: Tensor, numbers: dict[bytes, int], *, add: bool) -> Array:
    """``[rows, steps]``: the same number for the same values, -1 for unknown ones."""
    told = prints(_flat(values).flatten(0, 1))
    if add:
        for one in told:
            numbers.setdefault(one, len(numbers))
    return np.array([numbers.get(one, -1) for one in told]).reshape(values.shape[:2])


def _from_its_state(
    row: int, first: int, theirs: Array, pairs: Sequence[tuple[Tensor, Sequence[Tensor]]]
) -> Array:
    """Where the first step of a row was collected, ``[places, 2]``, if that can be, with the state
    that it begins with: zeros that follow a short row may be what was shown elsewhere."""
    found = np.argwhere(theirs == first)
    for mine, others in pairs:
        if mine.shape[1] > 1 or theirs.shape[1] == 1 or not bool(mine[row].any()):
            continue
        fitting = [one for one in others if one.shape[2:] == mine.shape[2:]]
        same = [any(bool((one[e, t] == mine[row, 0]).all()) for one in fitting) for e, t in found]
        found = found[same] if any(same) else found
    return found


def _runs(mine: Array, theirs: Array, begins: Array) -> list[tuple[int, Array]]:
    """The longest runs of ``theirs`` that ``mine`` begins with, of those that there are at
    ``begins``: how long, and where."""
    found, going, length = list[tuple[int, Array]](), begins, 0
    while len(going):
        length += 1
        if len(going) == 1:
            found.append((length + _same(mine, theirs, going[0], length), going[0]))
            break
        inside = going[going[:, 1] + length < theirs.shape[1]]
        here = inside[:0] if length == len(mine) else inside
        goes_on = here[theirs[here[:, 0], here[:, 1] + length] == mine[length : length + 1]]
        ended = {tuple(one) for one in going.tolist()} - {tuple(one) for one in goes_on.tolist()}
        found += [(length, np.array(one)) for one in sorted(ended)]
        going = goes_on
    return found[: -_RUNS - 1 : -1]


def _same(mine: Array, theirs: Array, begin: Array, length: int) -> int:
    """How many steps more than ``length`` of one run are the same."""
    env, first = begin
    there = theirs[env, first + length : first + len(mine)]
    other = np.flatnonzero(there != mine[length : length + len(there)])
    return int(other[0]) if len(other) else len(there)


def _alike(
    row: int, begin: Array, length: int, pairs: Sequence[tuple[Tensor, Sequence[Tensor]]]
) -> int:
    """How many numbers beside the run are those collected there."""
    env, first = int(begin[0]), int(begin[1])
    total = 0
    for mine, others in pairs:
        held = mine[row, :length]
        fitting = [one[env, first : first + len(held)] for one in others]
        same = [(held == one).all(-1).sum() for one in fitting if one.shape == held.shape]
        total += max((int(one) for one in same), default=0)
    return total
