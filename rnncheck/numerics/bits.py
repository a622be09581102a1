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
