"""How far a right answer may lie from the float64 oracle.

A candidate is accepted when its error is at most ``FACTOR`` times the error that the reference
computation makes in the same dtype, plus a slack of ``SLACK`` units in the last place of the
quantity's own scale. Both errors are taken against float64, so the bound follows the dtype, the
scale and the conditioning of the network.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rnncheck.numerics.difference import gap

# Times the reference's own error: another order of the same sums. Chosen, one decimal digit.
REFERENCE_FACTOR = 10.0
# Units in the last place, where the reference happens to have no error. Healthy modules differed
# from float64 by at most 2 (float32, float16, bfloat16; a grid of shapes, kinds and backends): 32
# times that.
SLACK = 64.0
# Where float64 cannot be run, the reference itself is the yardstick, and its error is in no bound.
# Chosen, not measured: 32 times SLACK, 2.4e-4 in float32, far below what a wrong state makes.
NO_ORACLE_SLACK = 2048.0
# Relative error of the reference beyond which the comparison says nothing. Chosen: with the factor
# above, the bound would allow a tenth of the scale.
LOST = 1e-2

# Relative error of what was computed with products in tf32. Chosen: 8 of its units in the last
# place; healthy recurrent passes of 64 steps had up to 0.3 of one on an H100.
TF32_SLACK = 8.0 * 2.0**-10

FORMULA = "10 x reference error + 64 eps x scale, against float64"
FORMULA_NO_ORACLE = "2048 eps x scale, against the step-by-step unroll"


@dataclass(frozen=True)
class Bound:
    """Bounds per step, broadcastable to ``[rows, steps, *features]``; ``lost`` marks steps too
    ill-conditioned."""

    values: Tensor
    lost: Tensor
    formula: str


def epsilon(dtype: torch.dtype) -> float:
    """Unit in the last place of a floating dtype."""
    return torch.finfo(dtype).eps


def bound(
    reference: Tensor, oracle: Tensor | None, dtype: torch.dtype, *, coarse: float = 0.0
) -> Bound:
    """The bound for a candidate of ``dtype``; tensors are ``[rows, steps, *features]``.

    ``coarse`` is the relative error that the candidate may have beside, where it was computed with
    products in fewer bits than the reference.

    The reference error is accumulated over the steps (a state's error cannot be undone by a lucky
    step).
    """
    scale = float(reference.double().abs().nan_to_num(0.0, 0.0, 0.0).max())
    ulp = epsilon(dtype) * max(scale, 1e-30)
    shape = (1, reference.shape[1], *([1] * (reference.ndim - 2)))
    if oracle is None:
        values = torch.full(shape, NO_ORACLE_SLACK * ulp + coarse * scale, dtype=torch.float64)
        return Bound(values, torch.zeros(shape, dtype=torch.bool), FORMULA_NO_ORACLE)
    error = gap(reference, oracle).transpose(0, 1).flatten(1).amax(1).cummax(0).values
    error = error.reshape(shape)
    values = REFERENCE_FACTOR * error + SLACK * ulp + coarse * scale
    formula = FORMULA + (f" + {coarse:.2g} x scale for CUDA" if coarse else "")
    return Bound(values, error > LOST * max(scale, 1e-30), formula)
