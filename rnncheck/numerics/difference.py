"""Where and by how much two tensors differ."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Difference:
    """The worst absolute difference between two tensors of shape ``[rows, steps, *features]``."""

    worst: float
    relative: float  # worst, over the largest magnitude of the reference
    row: int
    step: int
    feature: tuple[int, ...]
    first_step: int  # the first step, in any row, that exceeds the bound asked for
    first_rows: tuple[int, ...]  # the rows that exceed it there
    differing: int  # elements beyond the bound
    elements: int


def features(value: Tensor) -> Tensor:
    """``[rows, steps, features]`` of one value a step, of several, or of one in a shape of its
    own."""
    return value.reshape(*value.shape[:2], -1)


def bits_differ(left: Tensor, right: Tensor) -> Tensor:
    """Element-wise: not the same value (two NaN are the same). Same shapes."""
    if not left.is_floating_point():
        return left != right
    return (left != right) & ~(left.isnan() & right.isnan())


def gap(candidate: Tensor, reference: Tensor) -> Tensor:
    """Absolute difference in float64; where only one side is finite it is infinite."""
    left, right = candidate.double(), reference.double()
    difference = (left - right).abs()
    same = (left == right) | (left.isnan() & right.isnan())
    difference = torch.where(same, torch.zeros_like(difference), difference)
    return torch.where(difference.isnan(), torch.full_like(difference, torch.inf), difference)


def _excess(gaps: Tensor, bound: Tensor | float) -> Tensor:
    """How far beyond the bound, in bounds where there is one; an infinite gap stays the worst."""
    if isinstance(bound, Tensor) or bound > 0:
        return (gaps / bound).nan_to_num(nan=torch.inf)
    return gaps


def locate(gaps: Tensor, bound: Tensor | float, reference: Tensor) -> Difference | None:
    """The worst of ``gaps`` ``[rows, steps, *features]`` beyond ``bound`` (broadcast), or None.

    "Worst" is by excess over the bound, so that a bound which grows with the step is respected.
    """
    beyond = gaps > bound
    if not bool(beyond.any()):
        return None
    excess = torch.where(beyond, _excess(gaps, bound), torch.full_like(gaps, -1.0))
    index = [int(i) for i in torch.unravel_index(excess.argmax(), excess.shape)]
    places = beyond.flatten(2).any(-1) if gaps.ndim > 2 else beyond
    first_step = int(places.any(0).nonzero()[0])
    scale = float(reference.double().abs().nan_to_num(0.0, 0.0, 0.0).max().clamp_min(1e-300))
    worst = float(gaps[tuple(index)])
    return Difference(
        worst=worst,
        relative=worst / scale,
        row=index[0],
        step=index[1],
        feature=tuple(index[2:]),
        first_step=first_step,
        first_rows=tuple(places[:, first_step].nonzero().flatten().tolist()),
        differing=int(beyond.sum()),
        elements=gaps.numel(),
    )
