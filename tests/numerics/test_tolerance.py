"""How far a right answer may lie from the float64 oracle."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from torch import nn

from rnncheck.numerics.difference import gap
from rnncheck.numerics.tolerance import FORMULA, FORMULA_NO_ORACLE, bound, epsilon
from tests.numerics.strategies import DTYPES, tensors


@given(tensors(), DTYPES)
def test_the_reference_itself_is_always_within_its_bound(
    oracle: torch.Tensor, dtype: torch.dtype
) -> None:
    reference = oracle.to(dtype)
    limit = bound(reference, oracle, dtype)
    assert limit.formula == FORMULA
    assert (gap(reference, oracle) <= limit.values).all()
    assert not limit.lost.any()


@given(tensors(), DTYPES)
def test_a_bound_never_shrinks_over_time(oracle: torch.Tensor, dtype: torch.dtype) -> None:
    limit = bound(oracle.to(dtype), oracle, dtype)
    steps = limit.values.flatten()
    assert (steps[1:] >= steps[:-1]).all()
    assert steps.numel() == oracle.shape[1]


@given(tensors())
def test_a_bound_follows_the_scale(oracle: torch.Tensor) -> None:
    """A power of two changes no rounding, so that it scales the bound exactly."""
    small = bound(oracle.float(), oracle, torch.float32).values
    large = bound(1024 * oracle.float(), 1024 * oracle, torch.float32).values
    assert torch.allclose(1024 * small, large, rtol=1e-12)


@given(tensors())
def test_a_bound_follows_the_dtype(oracle: torch.Tensor) -> None:
    sizes = [
        float(bound(oracle.to(dtype), oracle, dtype).values.max())
        for dtype in (torch.float64, torch.float32, torch.bfloat16)
    ]
    assert sizes[0] < sizes[1] < sizes[2]


def test_a_wrong_answer_exceeds_it_in_every_dtype() -> None:
    oracle = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        limit = bound(oracle.to(dtype), oracle, dtype)
        wrong = (oracle + 1000 * epsilon(dtype) * oracle.abs().max()).to(dtype)
        assert (gap(wrong, oracle) > limit.values).all()


def test_without_an_oracle_the_reference_is_the_yardstick() -> None:
    reference = torch.ones(1, 3, 2)
    limit = bound(reference, None, torch.float32)
    assert limit.formula == FORMULA_NO_ORACLE
    assert float(limit.values.max()) == pytest.approx(2048 * 2**-23)
    assert not limit.lost.any()


def test_steps_at_which_the_reference_is_lost_are_marked() -> None:
    oracle = torch.ones(1, 4, 1, dtype=torch.float64)
    reference = oracle.clone()
    reference[0, 2] = 1.5
    assert bound(reference, oracle, torch.float64).lost.flatten().tolist() == [0, 0, 1, 1]


def test_zeros_and_nan_have_a_bound() -> None:
    zeros = torch.zeros(1, 2, 1)
    assert float(bound(zeros, zeros.double(), torch.float32).values.max()) < 1e-30
    nan = torch.full((1, 2, 1), torch.nan)
    assert not bound(nan, nan.double(), torch.float32).values.isnan().any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_two_right_implementations_agree_within_it(dtype: torch.dtype) -> None:
    """A GRU on a sequence and the same GRU step by step, in lower precision."""
    torch.manual_seed(0)
    gru, x = nn.GRU(6, 16, batch_first=True), torch.randn(3, 40, 6)
    with torch.no_grad():
        oracle = gru.double()(x.double())[0]
        gru.to(dtype)
        reference, h = [], None
        for t in range(x.shape[1]):
            out, h = gru(x[:, t : t + 1].to(dtype), h)
            reference.append(out)
        stepped, whole = torch.cat(reference, 1), gru(x.to(dtype))[0]
    limit = bound(stepped, oracle, dtype)
    assert (gap(whole, oracle) <= limit.values).all()
