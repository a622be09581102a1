"""Values as bits: two that are equal have the same, of whatever type."""

from __future__ import annotations

import pytest
import torch

from rnncheck.numerics.bits import raw_bits, value_bits

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", FLOATS)
def test_minus_zero_is_zero(dtype: torch.dtype) -> None:
    zeros = torch.tensor([0.0, -0.0], dtype=dtype)
    assert raw_bits(zeros).unique().numel() == 2
    assert value_bits(zeros).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", FLOATS)
def test_other_values_keep_their_bits(dtype: torch.dtype) -> None:
    least = torch.finfo(dtype).smallest_normal
    values = torch.tensor([1.5, -1.5, least, -least, torch.inf, -torch.inf], dtype=dtype)
    assert torch.equal(value_bits(values), raw_bits(values))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_minus_zero_is_zero_in_both_parts(dtype: torch.dtype) -> None:
    zeros = torch.tensor([[0.0, 0.0], [-0.0, -0.0], [0.0, -0.0]], dtype=dtype.to_real())
    assert not value_bits(torch.view_as_complex(zeros)).any()


def test_conjugated_values_are_told_by_what_they_are() -> None:
    values = torch.tensor([1 + 2j, 3 + 0j])
    expected = torch.complex(values.real, -values.imag)
    assert torch.equal(value_bits(values.conj()), value_bits(expected))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_whole_numbers_keep_their_bits(dtype: torch.dtype) -> None:
    values = torch.tensor([0, 1, 100], dtype=dtype)
    assert value_bits(values).tolist() == [0, 1, 100]


def test_truth_values_keep_their_bits() -> None:
    assert value_bits(torch.tensor([False, True])).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", FLOAT8)
def test_types_that_are_not_added_keep_their_bits(dtype: torch.dtype) -> None:
    values = torch.tensor([0.0, -0.0, 1.5]).to(dtype)
    assert torch.equal(value_bits(values), raw_bits(values))


def test_nothing_is_left_of_a_graph() -> None:
    values = torch.tensor([-0.0, 2.0], requires_grad=True)
    assert not value_bits(values).requires_grad
    assert bool(values[0].signbit())  # and what was given stays as it is
