"""Lists that hold one thing for each episode: what each of these holds is of a stretch of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.watching.forms.fewer_bits import ObservedSteps, Places
from rnncheck.watching.forms.held_as import gathered
from rnncheck.watching.forms.storages import Reach
from rnncheck.watching.forms.structures import Path, records, walked
from rnncheck.watching.forms.time_axis import prints

_FEWEST = 2  # steps of an episode, and episodes of a list: one step or one list tells nothing
_DEEPEST = 2  # what was observed lies in a dict or a tuple of an episode, or in one inside of that


def episode_lists(names: Mapping[str, Any], batch: TensorDictBase) -> dict[Path, list[Reach]]:
    """By the way there, from a variable's name on, the lists of as many things as there are
    episodes, and which steps of ``batch`` ``[1, steps]`` each of the things is of. What was
    observed tells that, in one of the lists at least."""
    lists = dict[Path, Sequence[Any]]()

    def looks(path: Path, value: Any) -> bool:
        if not isinstance(value, (list, tuple, deque)):
            return False
        if _FEWEST <= len(value) <= batch.shape[1] // _FEWEST:
            lists[path] = list(value)
        return False

    for name, value in names.items():
        walked(value, looks, (name,))
    if batch.shape[0] != 1 or not lists:
        return {}
    seen = ObservedSteps(batch)
    told = {path: _reaches(items, seen) for path, items in lists.items()}
    found = {path: one for path, one in told.items() if one}
    for path, items in lists.items():
        beside = next((one for one in found.values() if len(one) == len(items)), None)
        inside = any(path[: len(other)] == other for other in found)
        if beside is not None and not inside and all(map(_fits, items, beside)):
            found.setdefault(path, beside)
    return {path: one for path, one in found.items() if not _is_inside(path, found)}


def _is_inside(path: Path, others: Mapping[Path, Any]) -> bool:
    return any(path[: len(one)] == one for one in others if len(one) < len(path))


def _fits(item: Any, reach: Reach) -> bool:
    """Whether it holds as many things as there are steps, or a record of such."""
    size = len(item) if hasattr(item, "__len__") and np.shape(item) != () else 0
    if isinstance(item, (Tensor, np.ndarray, list, deque)):
        return size - reach.length in (0, 1)
    return bool(records(item)) and any(_fits(one, reach) for one in records(item).values())


def _reaches(items: Sequence[Any], seen: ObservedSteps) -> list[Reach]:
    """One behind the other; none where one of the things is of no stretch."""
    found = list[Reach]()
    for item in items:
        one = _reach(item, seen, _DEEPEST)
        if one is None or (found and one.begin < found[-1].begin + found[-1].length):
            return []
        found.append(one)
    return found


def _reach(item: Any, seen: ObservedSteps, deep: int) -> Reach | None:
    value = item if isinstance(item, Tensor) else gathered(item)[0]
    if value is not None:
        return _of_observed(value.detach().cpu(), *seen.like(value))
    for one in records(item).values() if deep else ():
        if (found := _reach(one, seen, deep - 1)) is not None:
            return found
    return None


def _of_observed(value: Tensor, seen: Tensor, places: Places) -> Reach | None:
    """The steps in which just this was observed, with or without what came last."""
    width = seen[0, 0].numel()
    if value.ndim == 0 or len(value) < _FEWEST or value.numel() != len(value) * width:
        return None
    laid = value.reshape(len(value), width).to(seen.dtype)
    at = [places.get(one) for one in prints(laid)]
    begins = {place[1] - number for number, place in enumerate(at) if place is not None}
    if len(begins) != 1:
        return None
    begin = begins.pop()
    for length in (len(laid), len(laid) - 1):
        own = seen[0, begin : begin + length].reshape(-1, width) if begin >= 0 else laid[:0]
        if (
            length >= _FEWEST
            and own.shape == laid[:length].shape
            and torch.equal(own, laid[:length])
        ):
            return Reach(begin, length)
    return None
