"""Medians and ratios with intervals that hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncheck.numerics.statistics import (
    drift,
    effective_size,
    median_interval,
    ratio_interval,
    spread,
)

times = st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=60)


@given(times)
def test_the_interval_encloses_the_median_and_lies_within_the_samples(samples: list[float]) -> None:
    found = median_interval(samples)
    assert min(samples) <= found.low <= found.median <= found.high <= max(samples)


def test_ninety_five_percent_of_intervals_hold_the_true_median() -> None:
    draw = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        found = median_interval(draw.exponential(size=40))
        hits += found.low <= np.log(2) <= found.high
    assert 0.92 <= hits / 400 <= 1.0


def test_samples_that_resemble_each_other_count_for_less_and_keep_their_coverage() -> None:
    draw = np.random.default_rng(1)
    hits = 0
    for _ in range(300):
        noise = draw.normal(size=120)
        walk = np.zeros(120)
        for i in range(1, 120):
            walk[i] = 0.6 * walk[i - 1] + noise[i]
        found = median_interval(walk + 100)
        hits += found.low <= 100 <= found.high
        assert found.effective < 120
    assert hits / 300 >= 0.85  # with the plain number of samples it is 0.68


def test_independent_samples_count_in_full() -> None:
    samples = np.random.default_rng(2).normal(size=200)
    assert effective_size(samples) >= 100


def test_few_samples_give_their_whole_range() -> None:
    found = median_interval([1.0, 2.0, 5.0])
    assert (found.low, found.median, found.high) == (1.0, 2.0, 5.0)
    with pytest.raises(ValueError, match="at least one"):
        median_interval([])


@given(times.filter(lambda t: len(t) > 2))
def test_the_inverse_question_has_the_inverse_answer(samples: list[float]) -> None:
    other = [1.5 * value for value in samples]
    forth, back = ratio_interval(samples, other), ratio_interval(other, samples)
    assert forth.median == pytest.approx(1.5)
    assert back.median == pytest.approx(1 / forth.median)
    assert back.low == pytest.approx(1 / forth.high)


def test_noise_that_both_share_leaves_the_ratio_alone() -> None:
    draw = np.random.default_rng(3)
    load = draw.uniform(1, 3, size=60)
    found = ratio_interval(load * 1.0, load * 1.05)
    assert found.low == pytest.approx(1.05)
    assert found.high == pytest.approx(1.05)


def test_spread_and_drift_are_shares_of_the_median() -> None:
    assert spread([1.0] * 9) == 0.0
    assert spread([1.0, 2.0, 3.0]) == pytest.approx(0.5)
    assert drift([1.0] * 10 + [1.1] * 20) == pytest.approx(0.1)
    assert drift([1.0, 2.0]) == 0.0
