"""Tensors as the bits that they consist of, whatever their type."""

from __future__ import annotations

import torch
from torch import Tensor

# numpy knows neither bfloat16 nor float8: a whole number of the same size stands for each.
_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def raw_bits(value: Tensor) -> Tensor:
    """``value`` on the processor as whole numbers; a complex one as those of its parts."""
    plain = value.detach().cpu().contiguous()
    plain = torch.view_as_real(plain.resolve_conj()).contiguous() if plain.is_complex() else plain
    return plain.view(_WHOLE[plain.element_size()])


def value_bits(value: Tensor) -> Tensor:
    """The same to tell equal values by: -0.0 is 0.0, as it is for a network. In float8, which torch
    does not add, they are two."""
    floats = value.is_floating_point() or value.is_complex()
    adds = floats and value.element_size() > 1
    return raw_bits(value.detach() + 0.0 if adds else value)
