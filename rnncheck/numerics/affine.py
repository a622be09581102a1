"""Whether one tensor is another one moved and scaled as a whole, as a normalisation leaves it."""

from __future__ import annotations

import torch
from torch import Tensor

_LEAST = 5  # entries: two numbers fit any two
_WIDEST = 8  # features that are fitted, each on its own
_PAIRS = 64  # of entries that a line is drawn through
_SLACK = 10.0  # a line through two rounded entries is off by more than their rounding


def moved_as_one(old: Tensor, new: Tensor, watch: Tensor, tolerance: float) -> bool:
    """Whether the watched entries ``[rows, steps, *features]`` of ``new`` are one line in those of
    ``old``; ``tolerance`` is relative to the largest of them.

    Steps that are zero in both were left out. False for too few to tell.
    """
    wide = [value.double().reshape(*watch.shape, -1) for value in (old, new)]
    there = watch & ((wide[0] != 0) | (wide[1] != 0)).any(-1)
    left, right = (value[there] for value in wide)
    known = bool(left.isfinite().all()) and bool(right.isfinite().all())
    if not known or len(left) < _LEAST or left.shape[1] > _WIDEST:
        return False
    return all(_on_a_line(left[:, n], right[:, n], tolerance) for n in range(left.shape[1]))


def _on_a_line(x: Tensor, y: Tensor, tolerance: float) -> bool:
    limit = _SLACK * tolerance * float(torch.maximum(x.abs(), y.abs()).max())
    generator = torch.Generator().manual_seed(0)
    one, other = torch.randint(len(x), (2, _PAIRS), generator=generator)
    apart = x[one] - x[other]
    wide = apart.abs() > 0.1 * float(x.max() - x.min())
    slope = torch.where(wide, (y[one] - y[other]) / torch.where(wide, apart, 1.0), 1.0)
    base = y[one] - slope * x[one]
    return bool(((slope[:, None] * x + base[:, None] - y).abs() <= limit).all(1).any())
