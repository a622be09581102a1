"""Changing some steps of a batch without changing its shape, dtype or device."""

from __future__ import annotations

import torch
from torch import Tensor

# Limits of the spread of the noise, in the unit of the values. Chosen: a tensor of one value shall
# move beyond its rounding in every dtype, and one with an outlier shall not overflow float16's
# products.
LEAST_SPREAD, MOST_SPREAD = 0.1, 1e6


def perturbed(values: Tensor, mask: Tensor, generator: torch.Generator) -> Tensor:
    """``values`` ``[rows, steps, *features]`` with other contents where ``mask`` ``[rows, steps]``
    is true.

    Floats move by normal noise of their own spread (at least 0.1); integers take another value that
    occurs in the batch, bytes and booleans flip their low bit, so that embeddings and pixels stay
    in range.
    """
    where = mask.reshape(*mask.shape, *([1] * (values.ndim - mask.ndim))).to(values.device)
    return torch.where(where, _other(values, generator), values)


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


def changeable(values: Tensor) -> bool:
    """Whether ``perturbed`` can change this tensor at all."""
    if values.is_floating_point() or values.dtype in (torch.bool, torch.uint8):
        return values.numel() > 0
    return not values.is_complex() and len(values.unique()) > 1
