"""Where and by how much two tensors differ."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rnncheck.numerics.difference import bits_differ, gap, locate
from tests.numerics.strategies import tensors


@given(tensors(awkward=True))
def test_a_tensor_does_not_differ_from_itself(values: torch.Tensor) -> None:
    assert not bits_differ(values, values.clone()).any()
    assert gap(values, values.clone()).eq(0).all()
    assert locate(gap(values, values.clone()), 0.0, values) is None


@given(tensors(awkward=True), tensors(awkward=True))
def test_a_gap_is_symmetric_and_never_nan(left: torch.Tensor, right: torch.Tensor) -> None:
    if left.shape != right.shape:
        right = left.flip(1)
    there, back = gap(left, right), gap(right, left)
    assert torch.equal(there, back)
    assert not there.isnan().any()
    assert (there >= 0).all()
    assert torch.equal(there > 0, bits_differ(left, right))


@pytest.mark.parametrize(
    ("left", "right", "size"),
    [
        (math.nan, math.nan, 0.0),
        (math.inf, math.inf, 0.0),
        (math.inf, -math.inf, math.inf),
        (math.nan, 1.0, math.inf),
        (1.0, math.inf, math.inf),
        (0.0, -0.0, 0.0),
        (1.0, 1.5, 0.5),
    ],
)
def test_the_gap_between_numbers_that_are_none(left: float, right: float, size: float) -> None:
    assert gap(torch.tensor([left]), torch.tensor([right])).item() == size


def test_integers_and_flags_are_compared_by_value() -> None:
    assert bits_differ(torch.tensor([1, 2]), torch.tensor([1, 3])).tolist() == [False, True]
    assert bits_differ(torch.tensor([True]), torch.tensor([False])).tolist() == [True]
    assert gap(torch.tensor([True, True]), torch.tensor([False, True])).tolist() == [1.0, 0.0]


@given(tensors(), st.data())
def test_one_changed_number_is_found_where_it_is(values: torch.Tensor, data: st.DataObject) -> None:
    place = tuple(data.draw(st.integers(0, size - 1)) for size in values.shape)
    changed = values.clone()
    changed[place] += 3.0
    found = locate(gap(changed, values), 1.0, values)
    assert found is not None
    assert (found.row, found.step, *found.feature) == place
    assert (found.first_step, found.differing, found.elements) == (place[1], 1, values.numel())
    assert found.worst == pytest.approx(3.0)
    assert found.relative == pytest.approx(3.0 / max(float(values.abs().max()), 1e-300))


def test_the_worst_is_the_largest_excess_over_a_bound_that_grows() -> None:
    gaps = torch.tensor([[1.0, 5.0, 6.0]]).unsqueeze(-1)
    bound = torch.tensor([[0.5, 1.0, 5.5]]).unsqueeze(-1)
    found = locate(gaps, bound, gaps)
    assert found is not None
    assert (found.first_step, found.differing) == (0, 3)
    assert found.step == 1  # 5.0 exceeds its bound by 4, 6.0 its own by half


def test_without_features_and_at_the_bound() -> None:
    gaps = torch.tensor([[0.0, 2.0], [0.0, 1.0]])
    found = locate(gaps, 1.0, gaps)
    assert found is not None
    assert (found.row, found.step, found.feature, found.differing) == (0, 1, (), 1)
    assert locate(gaps, 2.0, gaps) is None


@pytest.mark.parametrize(
    ("beyond", "first_step", "first_rows"),
    [
        ({(0, 3): 9.0, (1, 1): 2.0, (2, 1): 3.0}, 1, (1, 2)),
        ({(0, 3): 9.0}, 3, (0,)),
    ],
)
def test_the_first_step_beyond_the_bound_comes_with_its_own_rows(
    beyond: dict[tuple[int, int], float], first_step: int, first_rows: tuple[int, ...]
) -> None:
    gaps = torch.zeros(3, 5, 2)
    for (row, step), size in beyond.items():
        gaps[row, step, 1] = size
    found = locate(gaps, 1.0, torch.ones(3, 5, 2))
    assert found is not None
    assert (found.row, found.step) == (0, 3)
    assert (found.first_step, found.first_rows) == (first_step, first_rows)
