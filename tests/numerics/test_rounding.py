"""Fewer bits of significand: against torch's own narrow dtypes, and the order of the precisions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from rnncheck.numerics import recurrence
from rnncheck.numerics.emulate import Computing
from rnncheck.numerics.rounding import (
    BFLOAT16,
    IEEE,
    TF32,
    TF32X3,
    ProductPrecision,
    narrow,
    round_bits,
)

from .strategies import tensors

ROWS, STEPS = 32, 48


@given(tensors(torch.float32))
def test_eight_bits_are_bfloat16(values: Tensor) -> None:
    assert torch.equal(round_bits(values, 8), narrow(values, torch.bfloat16))


@given(tensors())
def test_twenty_four_bits_are_float32(values: Tensor) -> None:
    assert torch.equal(round_bits(values, 24), narrow(values, torch.float32))


@given(tensors(), st.integers(2, 40))
def test_rounding_is_near_and_final(values: Tensor, bits: int) -> None:
    rounded = round_bits(values, bits)
    assert bool(((rounded - values).abs() <= values.abs() * 2.0**-bits).all())
    assert torch.equal(round_bits(rounded, bits), rounded)
    assert torch.equal(round_bits(-values, bits), -rounded)


def test_what_is_no_number_stays() -> None:
    values = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, -0.0], dtype=torch.float64)
    assert torch.equal(round_bits(values, 8).nan_to_num(7.0), values.nan_to_num(7.0))


@pytest.mark.parametrize(
    ("precision", "bits"), [(BFLOAT16, 8), (TF32, 11), (TF32X3, 21), (IEEE, 23)], ids=str
)
def test_a_product_has_the_bits_of_its_precision(precision: ProductPrecision, bits: int) -> None:
    draw = torch.Generator().manual_seed(1)
    left, right = (torch.randn(64, 64, generator=draw, dtype=torch.float64) for _ in range(2))
    left, right = (narrow(one, torch.float32) for one in (left, right))
    error = (precision.product(torch.mm, left, right) - left @ right).abs()
    allowed = (left.abs() @ right.abs()) * 2.0 ** (1 - bits)
    assert bool((error <= allowed).all())


def curve(precision: ProductPrecision | None, rnn: nn.RNNBase, inputs: Tensor) -> Tensor:
    """Outputs ``[rows, steps, hidden]`` of an unroll in float64 with products of ``precision``."""
    with torch.no_grad(), Computing(torch.float64, precision):
        return rnn(inputs)[0]  # type: ignore[no-any-return]


@settings(max_examples=15)
@given(st.sampled_from([nn.LSTM, nn.GRU]), st.sampled_from([8, 17, 64]), st.integers(0, 2**20))
def test_drift_is_ordered_at_every_horizon(kind: type[nn.RNNBase], hidden: int, seed: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rnn = kind(4, hidden, batch_first=True).double()
        inputs = torch.randn(ROWS, STEPS, 4).double()
    exact = curve(None, rnn, inputs)
    coarse, compensated, full = (
        (curve(one, rnn, inputs) - exact).square().mean((0, 2)).sqrt()
        for one in (TF32, TF32X3, IEEE)
    )
    assert bool((coarse > 100 * compensated).all())
    assert bool((compensated > full).all())


def test_the_reference_equations_are_rounded_too() -> None:
    rnn = nn.LSTM(4, 16)
    weights, states = recurrence.weights(rnn), (torch.zeros(1, 16), torch.zeros(1, 16))
    inputs = torch.randn(STEPS, 4, generator=torch.Generator().manual_seed(0))
    exact, _ = recurrence.unroll_equations(weights, inputs, states)
    with Computing(torch.float64, TF32):
        rounded, _ = recurrence.unroll_equations(weights, inputs, states)
    assert 1e-6 < float((rounded - exact).abs().max()) < 1e-2
