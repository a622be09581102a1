"""Changing some steps and nothing else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rnncheck.numerics.perturb import changeable, perturbed
from tests.numerics.strategies import masks, tensors

SEED = 11


def change(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return perturbed(values, mask, torch.Generator().manual_seed(SEED))


@given(st.data(), st.sampled_from([torch.float64, torch.float32]))
def test_floats_change_where_the_mask_is_and_nowhere_else(
    data: st.DataObject, dtype: torch.dtype
) -> None:
    values = data.draw(tensors()).to(dtype)
    mask = data.draw(masks(*values.shape[:2]))
    after = change(values, mask)
    assert (after.shape, after.dtype) == (values.shape, values.dtype)
    assert torch.equal(after[~mask], values[~mask])
    steps = (after != values).flatten(2).any(-1)
    assert torch.equal(steps, mask)


def test_integers_without_limits_take_a_value_that_occurs() -> None:
    """As the steps counted by an env, whose spec is unbounded."""
    values, mask = torch.arange(6).reshape(2, 3), torch.ones(2, 3, dtype=torch.bool)
    limits = (-(2**63), 2**63 - 1)
    after = perturbed(values, mask, torch.Generator().manual_seed(SEED), limits)
    assert set(after.flatten().tolist()) <= set(range(6))
    assert bool((after != values).all())
    assert changeable(values, limits)
    assert not changeable(torch.zeros(2, 3, dtype=torch.long), limits)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_changes_at_every_step(dtype: torch.dtype) -> None:
    values = torch.randn(2, 20, 8, generator=torch.Generator().manual_seed(1)).to(dtype)
    after = change(values, torch.ones(2, 20, dtype=torch.bool))
    assert after.dtype is dtype
    assert (after != values).flatten(2).any(-1).all()


@given(st.data())
def test_the_same_seed_gives_the_same_change(data: st.DataObject) -> None:
    values = data.draw(tensors())
    mask = data.draw(masks(*values.shape[:2]))
    assert torch.equal(change(values, mask), change(values, mask))


@given(st.data())
def test_the_input_is_left_as_it_was(data: st.DataObject) -> None:
    values = data.draw(tensors(awkward=True))
    before = values.clone()
    change(values, torch.ones(values.shape[:2], dtype=torch.bool))
    assert torch.equal(values.nan_to_num(7.0), before.nan_to_num(7.0))


@given(st.lists(st.integers(0, 4), min_size=2, max_size=12), st.data())
def test_integers_stay_among_those_that_occur(numbers: list[int], data: st.DataObject) -> None:
    values = torch.tensor([numbers])
    mask = data.draw(masks(1, len(numbers)))
    after = change(values, mask)
    assert set(after.flatten().tolist()) <= set(numbers)
    if changeable(values):
        assert torch.equal(after != values, mask)
    else:
        assert torch.equal(after, values)


@pytest.mark.parametrize(
    ("values", "after"),
    [
        (torch.tensor([[True, False]]), [[False, True]]),
        (torch.tensor([[0, 1]], dtype=torch.uint8), [[1, 0]]),
        (torch.tensor([[0, 255, 100]], dtype=torch.uint8), [[255, 0, 155]]),
    ],
)
def test_flags_and_pixels_stay_in_range(values: torch.Tensor, after: list[list[int]]) -> None:
    assert change(values, torch.ones(values.shape, dtype=torch.bool)).tolist() == after


def test_the_noise_has_the_spread_of_the_values_but_some_at_least() -> None:
    everywhere = torch.ones(1, 4000, dtype=torch.bool)
    wide = 50 * torch.randn(1, 4000, generator=torch.Generator().manual_seed(1))
    assert float((change(wide, everywhere) - wide).std()) == pytest.approx(50, rel=0.1)
    flat = torch.full((1, 4000), 3.0)
    assert float((change(flat, everywhere) - flat).std()) == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize(
    ("values", "able"),
    [
        (torch.zeros(1, 2), True),
        (torch.zeros(1, 0), False),
        (torch.zeros(1, 2, dtype=torch.bool), True),
        (torch.zeros(1, 2, dtype=torch.uint8), True),
        (torch.zeros(1, 2, dtype=torch.int64), False),
        (torch.arange(2).unsqueeze(0), True),
        (torch.zeros(1, 2, dtype=torch.complex64), False),
    ],
)
def test_what_can_be_changed(values: torch.Tensor, able: bool) -> None:
    assert changeable(values) is able


def test_integers_with_limits_take_another_value_between_them() -> None:
    values, mask = torch.full((2, 50), 3), torch.ones(2, 50, dtype=torch.bool)
    assert not changeable(values)
    assert changeable(values, (2, 6))
    moved = perturbed(values, mask, torch.Generator().manual_seed(0), (2, 6))
    assert set(moved.unique().tolist()) == {2, 4, 5, 6}
