"""Means and deviations that are held still, and what is left alone."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rnncheck.pipeline.instruments.statistics import HeldStatistics


def normalised(values: Tensor) -> Tensor:
    return (values - values.mean()) / (values.std() + 1e-8)


@given(st.lists(st.floats(-5, 5, width=32), min_size=3, max_size=9), st.integers(0, 2))
def test_a_normalisation_moves_nothing_else(numbers: list[float], at: int) -> None:
    values = torch.tensor(numbers)
    with HeldStatistics() as noted:
        base = normalised(values)
    other = values.clone()
    other[at] += 7
    with HeldStatistics(noted.given):
        moved = normalised(other) != base
    assert moved.nonzero().flatten().tolist() in ([at], [])
    assert len(noted.given) == 2


def test_what_has_a_gradient_is_left_alone() -> None:
    values = torch.arange(4.0, requires_grad=True)
    with HeldStatistics([("mean", 4, (torch.tensor(9.0),))]) as noted:
        mean = values.mean()
    assert (float(mean.detach()), noted.given) == (1.5, [])


def test_a_sum_may_be_a_return() -> None:
    with HeldStatistics([("sum", 4, (torch.tensor(9.0),))]) as noted:
        total = torch.arange(4.0).sum()
    assert (float(total), noted.given) == (6.0, [])


def test_both_of_two_are_held() -> None:
    with HeldStatistics() as noted:
        torch.std_mean(torch.arange(4.0))
    with HeldStatistics(noted.given):
        deviation, mean = torch.std_mean(2 * torch.arange(4.0))
    assert float(mean) == 1.5
    assert float(deviation) == float(torch.arange(4.0).std())


def test_what_is_asked_of_more_is_no_longer_that() -> None:
    """Lines that took another way ask for other numbers in the same order."""
    with HeldStatistics() as noted:
        torch.arange(4.0).mean()
    with HeldStatistics(noted.given):
        assert float(torch.arange(8.0).mean()) == 3.5
        assert float(torch.arange(4.0).std()) > 1
