"""Tensors for the property tests: ``[rows, steps, features]``, with the values that break
comparisons."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 4))
AWKWARD = (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e-30, -1e30)
DTYPES = st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16])


@st.composite
def tensors(draw: st.DrawFn, dtype: torch.dtype = torch.float64, awkward: bool = False) -> Tensor:
    """Normal numbers of some size, with a few awkward ones among them if asked."""
    shape = draw(SHAPES)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    scale = draw(st.sampled_from([1e-6, 1.0, 1e3]))
    values = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
    if awkward:
        for place in draw(st.lists(st.integers(0, values.numel() - 1), max_size=4)):
            values.view(-1)[place] = draw(st.sampled_from(AWKWARD))
    return values.to(dtype)


@st.composite
def masks(draw: st.DrawFn, rows: int, steps: int) -> Tensor:
    """A choice of steps, ``[rows, steps]``."""
    bits = draw(st.lists(st.booleans(), min_size=rows * steps, max_size=rows * steps))
    return torch.tensor(bits).reshape(rows, steps)
