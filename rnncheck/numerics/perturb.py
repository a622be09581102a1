"""Changing some steps of a batch without changing its shape, dtype or device."""

from __future__ import annotations

import torch
from torch import Tensor

# Limits of the spread of the noise, in the unit of the values. Chosen: a tensor of one value shall
# move beyond its rounding in every dtype, and one with an outlier shall not overflow float16's
# products.
LEAST_SPREAD, MOST_SPREAD = 0.1, 1e6


_WIDEST = 2**31  # values that an integer may have: chosen
Limits = tuple[int, int]  # the least and the largest value that an integer may have


def perturbed(
    values: Tensor, mask: Tensor, generator: torch.Generator, limits: Limits | None = None
) -> Tensor:
    """``values`` ``[rows, steps, *features]`` with other contents where ``mask`` ``[rows, steps]``
    is true.

    Floats move by normal noise of their own spread (at least 0.1); integers take another value that
    occurs in the batch, bytes and booleans flip their low bit, so that embeddings and pixels stay
    in range. With ``limits`` integers take another value between them, unless that may be any.
    """
    where = mask.reshape(*mask.shape, *([1] * (values.ndim - mask.ndim))).to(values.device)
    integers = not values.is_floating_point() and values.dtype not in (torch.bool, torch.uint8)
    if limits is not None and integers and _are_narrow(limits):
        return torch.where(where, _drawn(values, generator, limits), values)
    return torch.where(where, _other(values, generator), values)


def _are_narrow(limits: Limits) -> bool:
    """An unbounded spec has those of its type, which no embedding has rows for."""
    return limits[1] - limits[0] < _WIDEST


def _drawn(values: Tensor, generator: torch.Generator, limits: Limits) -> Tensor:
    """Another value between the limits, for each."""
    size = limits[1] - limits[0] + 1
    step = torch.randint(1, max(size, 2), values.shape, generator=generator).to(values)
    return limits[0] + (values - limits[0] + step) % size


def _other(values: Tensor, generator: torch.Generator) -> Tensor:
    if values.is_floating_point():
        seen = values.double().nan_to_num().std(unbiased=False)
        spread = float(seen.clamp(LEAST_SPREAD, MOST_SPREAD))
        noise = torch.randn(values.shape, generator=generator, dtype=torch.float64)
        return values + (spread * noise).to(values.dtype).to(values.device)
    if values.dtype is torch.bool:
        return ~values
    if values.dtype is torch.uint8:
        return values ^ 1 if int(values.max()) <= 1 else 255 - values
    occurring: Tensor = values.unique()
    position = torch.searchsorted(occurring, values.contiguous())
    following: Tensor = occurring[(position + 1) % len(occurring)]
    return following


def changeable(values: Tensor, limits: Limits | None = None) -> bool:
    """Whether ``perturbed`` can change this tensor at all."""
    if limits is not None and limits[1] > limits[0] and _are_narrow(limits):
        return True
    if values.is_floating_point() or values.dtype in (torch.bool, torch.uint8):
        return values.numel() > 0
    return not values.is_complex() and len(values.unique()) > 1
