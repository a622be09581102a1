"""Which dimension of a training batch is time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.numerics.bits import value_bits
from rnncheck.pipeline.keys import Key, tensor_items, tensor_keys

_LEAST = 0.5  # share of the steps that must be known by one of their entries: the greater part


def time_axis(batch: TensorDictBase, acted: Sequence[TensorDictBase]) -> int:
    """The dimension of ``batch`` along which the steps of one row of ``acted`` follow each other;
    the last where that is not seen."""
    last: int = batch.batch_dims - 1
    places = _places(batch, acted) if last > 0 else None
    if places is None:
        return last
    scores = [in_a_row(places, dim) for dim in range(batch.batch_dims)]
    best = max(range(batch.batch_dims), key=lambda dim: (scores[dim], dim))
    return best if scores[best] > scores[last] else last


def is_placed(batch: TensorDictBase, acted: Sequence[TensorDictBase]) -> bool:
    """Whether the greater part of its steps is known by one of its entries."""
    return _places(batch, acted) is not None


def _places(batch: TensorDictBase, acted: Sequence[TensorDictBase]) -> Tensor | None:
    """Row and time of every step ``[*batch, 2]``, -1 where unknown, by the entry that tells
    most."""
    best: Tensor | None = None
    for key in _handed_on(batch, acted):
        known = known_places(key, acted)
        value = batch.get(key)
        flat = value.reshape(batch.numel(), -1)
        found = [known.get(one, (-1, -1)) for one in prints(flat)]
        places = torch.tensor(found).reshape(*batch.shape, 2)
        share = float((places[..., 0] >= 0).double().mean())
        if share >= _LEAST and (best is None or share > float((best[..., 0] >= 0).double().mean())):
            best = places
    return best


def _handed_on(batch: TensorDictBase, acted: Sequence[TensorDictBase]) -> list[Key]:
    """Floats that a step hands on to the next."""
    first = acted[0] if acted else None
    known = set() if first is None else set(tensor_keys(first))
    return [
        key
        for key, value in tensor_items(batch)
        if key[0] != "next" and {key, ("next", *key)} <= known and value.is_floating_point()
    ]


def known_places(key: Key, acted: Sequence[TensorDictBase]) -> dict[bytes, tuple[int, int]]:
    """Row and time of what stands under ``key`` at one collected step alone."""
    found, several = dict[bytes, tuple[int, int]](), set[bytes]()
    time = 0
    for batch in acted:
        rows, steps = batch.shape[:-1].numel(), batch.shape[-1]
        rows_of = prints(batch.get(key).reshape(rows * steps, -1))
        for number, one in enumerate(rows_of):
            if one in found:
                several.add(one)
            found[one] = (number // steps, time + number % steps)
        time += steps
    return {one: place for one, place in found.items() if one not in several}


def prints(values: Tensor) -> list[bytes]:
    return [row.tobytes() for row in value_bits(values).numpy()]


def in_a_row(places: Tensor, dim: int) -> float:
    """How many neighbours along ``dim`` are of one row, and how many of those follow each other."""
    size = places.shape[dim]
    before, after = places.narrow(dim, 0, size - 1), places.narrow(dim, 1, size - 1)
    known = (before[..., 0] >= 0) & (after[..., 0] >= 0)
    if not bool(known.any()):
        return 1.0 if size == 1 and places.ndim > 2 else 0.0
    same = (before[..., 0] == after[..., 0])[known].double()
    follows = ((after[..., 1] - before[..., 1]) == 1)[known].double()
    return float(same.mean() + (same * follows).mean())
