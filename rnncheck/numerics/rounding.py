"""Reduced precision in float64: numbers with fewer bits of significand, and matrix products that
use them.

A product on tensor cores rounds its operands and sums in float32. tf32 keeps 11 significant bits of
a float32 (10 are stored); tf32x3 splits each operand into two such parts and leaves out only the
product of the small ones, which is about 22 bits; ieee keeps all 24. A bfloat16 operand has 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

FLOAT32_BITS = 24  # of significand, the implicit one counted, as everywhere here
TF32_BITS = 11  # 10 stored: the format of NVIDIA's tensor cores
BITS = {torch.float64: 53, torch.float32: FLOAT32_BITS, torch.float16: 11, torch.bfloat16: 8}

Bilinear = Callable[[Tensor, Tensor], Tensor]


def round_bits(values: Tensor, bits: int) -> Tensor:
    """``values`` rounded to ``bits`` significant bits, ties to even; the exponent's range is not
    narrowed."""
    mantissa, exponent = torch.frexp(values)
    scaled = torch.ldexp(mantissa, torch.tensor(float(bits)).to(values.dtype)).round()
    rounded = torch.ldexp(
        torch.ldexp(scaled, -torch.tensor(float(bits)).to(values.dtype)), exponent
    )
    return torch.where(values.isfinite(), rounded, values)


@dataclass(frozen=True)
class ProductPrecision:
    """How a matrix product is computed: operands of ``bits``, in one part or, compensated, in
    two."""

    name: str
    bits: int
    parts: int = 1

    def product(self, function: Bilinear, left: Tensor, right: Tensor) -> Tensor:
        """``function(left, right)``, affine in each operand, with operands of this precision."""
        if self.parts == 1:
            result = function(round_bits(left, self.bits), round_bits(right, self.bits))
        else:
            result = self._in_two_parts(function, left, right)
        return round_bits(result, FLOAT32_BITS)

    def _in_two_parts(self, function: Bilinear, left: Tensor, right: Tensor) -> Tensor:
        (big_l, small_l), (big_r, small_r) = self._split(left), self._split(right)
        whole = function(big_l + small_l, big_r + small_r)
        small = function(small_l, small_r) - function(torch.zeros_like(small_l), small_r)
        return whole - small

    def _split(self, values: Tensor) -> tuple[Tensor, Tensor]:
        held = round_bits(values, FLOAT32_BITS)
        big = round_bits(held, self.bits)
        return big, round_bits(held - big, self.bits)


IEEE = ProductPrecision("ieee", FLOAT32_BITS)
TF32 = ProductPrecision("tf32", TF32_BITS)
TF32X3 = ProductPrecision("tf32x3", TF32_BITS, parts=2)
BFLOAT16 = ProductPrecision("bfloat16", BITS[torch.bfloat16])
