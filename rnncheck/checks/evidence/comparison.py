"""Comparing outputs: within a bound against the oracle, or to the bit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.numerics.difference import Difference, bits_differ, gap, locate
from rnncheck.numerics.tolerance import bound
from rnncheck.pipeline.keys import Key, tensor_keys

DISCRETE_SHARE = 0.05  # discrete outputs may flip at a tie; a fault flips more than this share


@dataclass(frozen=True)
class Mismatch:
    """One key that lies beyond its bound."""

    key: Key
    difference: Difference
    bound: float
    formula: str


def mismatches(
    candidate: TensorDictBase,
    truth: TensorDictBase,
    oracle: TensorDictBase | None,
    keys: Iterable[Key],
    mask: Tensor | None = None,
    *,
    coarse: float = 0.0,
) -> list[Mismatch]:
    """The keys of ``candidate`` ``[rows, steps]`` that are no rounding of the oracle, worst first.

    ``mask`` limits the comparison to some steps; ``coarse`` is as for the bound. Discrete keys
    count only where no float key is compared, and then only beyond a share of flips that ties can
    explain.
    """
    shared = [key for key in keys if key in tensor_keys(candidate) and key in tensor_keys(truth)]
    floats = [key for key in shared if candidate.get(key).is_floating_point()]
    found = [_float_mismatch(key, candidate, truth, oracle, mask, coarse) for key in floats]
    if not floats:
        found = [_discrete_mismatch(key, candidate, truth, mask) for key in shared]
    real = [item for item in found if item is not None]
    return sorted(real, key=lambda item: -item.difference.relative)


def is_same(candidate: TensorDictBase, truth: TensorDictBase, keys: Iterable[Key]) -> bool:
    """Whether all of ``keys`` that both have are the same, value for value."""
    shared = [key for key in keys if key in tensor_keys(candidate) and key in tensor_keys(truth)]
    pairs = [(candidate.get(key), truth.get(key)) for key in shared]
    return all(
        value.shape == reference.shape and not bool(gap(value, reference).any())
        for value, reference in pairs
    )


def _float_mismatch(
    key: Key,
    candidate: TensorDictBase,
    truth: TensorDictBase,
    oracle: TensorDictBase | None,
    mask: Tensor | None,
    coarse: float,
) -> Mismatch | None:
    value, reference = candidate.get(key), truth.get(key)
    if value.shape != reference.shape:
        return None
    exact = None if oracle is None else oracle.get(key)
    limit = bound(reference, exact, value.dtype, coarse=coarse)
    gaps = gap(value, reference if exact is None else exact)
    gaps = _masked(gaps, mask).masked_fill(limit.lost, 0.0)
    difference = locate(gaps, limit.values, reference)
    if difference is None:
        return None
    here = limit.values.expand_as(gaps)[(difference.row, difference.step, *difference.feature)]
    return Mismatch(key, difference, float(here), limit.formula)


def _discrete_mismatch(
    key: Key, candidate: TensorDictBase, truth: TensorDictBase, mask: Tensor | None
) -> Mismatch | None:
    value, reference = candidate.get(key), truth.get(key)
    if value.shape != reference.shape:
        return None
    gaps = _masked((value != reference).double(), mask)
    if float(gaps.mean()) <= DISCRETE_SHARE:
        return None
    difference = locate(gaps, 0.0, reference)
    return None if difference is None else Mismatch(key, difference, 0.0, "no flips beyond ties")


def _masked(gaps: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return gaps
    return gaps * mask.reshape(*mask.shape, *([1] * (gaps.ndim - 2)))


@dataclass(frozen=True)
class OutputChange:
    """Where outputs changed to the bit: ``[rows, steps]`` per key, and the largest change."""

    key: Key
    changed: Tensor
    difference: Difference


def changes(
    before: TensorDictBase, after: TensorDictBase, keys: Iterable[Key], watch: Tensor
) -> list[OutputChange]:
    """Keys in which a step of ``watch`` ``[rows, steps]`` is not bit for bit what it was."""
    found = []
    for key in keys:
        old, new = before.get(key), after.get(key)
        differ = _masked(bits_differ(old, new).double(), watch) > 0
        if bool(differ.any()):
            gaps = torch.where(differ, gap(new, old).clamp_min(torch.finfo(torch.double).tiny), 0.0)
            difference = locate(gaps, 0.0, old)
            steps = differ.flatten(2).any(-1) if differ.ndim > 2 else differ
            if difference is not None:
                found.append(OutputChange(key, steps, difference))
    return sorted(found, key=lambda change: -change.difference.worst)
