"""The verdict over pairs of processes: its error rates on noise like that which was measured, and
its rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncheck.numerics.stopping import (
    MAX_PAIRS,
    MIN_PAIRS,
    Measure,
    PairsAnswer,
    answer_of_pairs,
    corrected,
    over_pairs,
)

ALLOWED = 0.03
GATES = 400


def gate(generator: np.random.Generator, slowdown: float, wall: float, cpu: float) -> PairsAnswer:
    """One comparison: both measures share the process's own part, each has noise of its own."""
    shared = generator.normal(np.log1p(slowdown), 0.015, MAX_PAIRS)
    ratios = {
        Measure.WALL: np.exp(shared + generator.normal(0, wall, MAX_PAIRS)),
        Measure.CPU: np.exp(shared + generator.normal(0, cpu, MAX_PAIRS)),
    }
    for pairs in range(MIN_PAIRS, MAX_PAIRS + 1):
        last = pairs == MAX_PAIRS
        seen = {measure: values[:pairs].tolist() for measure, values in ratios.items()}
        said = answer_of_pairs(seen, ALLOWED, last=last)
        if said is not PairsAnswer.OPEN:
            return said
    return PairsAnswer.OPEN


@pytest.mark.parametrize(("wall", "cpu"), [(0.005, 0.005), (0.03, 0.017)])
def test_error_rates(wall: float, cpu: float) -> None:
    generator = np.random.default_rng(0)

    def slower(slowdown: float) -> float:
        said = [gate(generator, slowdown, wall, cpu) for _ in range(GATES)]
        return said.count(PairsAnswer.SLOWER) / GATES

    assert slower(0.0) <= 0.01
    assert slower(0.05) >= 0.95
    assert slower(0.2) == 1


def test_few_pairs_say_nothing() -> None:
    seen = {measure: [2.0] * (MIN_PAIRS - 1) for measure in Measure}
    assert answer_of_pairs(seen, ALLOWED) is PairsAnswer.OPEN


def test_what_only_wall_time_shows_is_slower_too() -> None:
    seen = {Measure.WALL: [1.5, 1.52, 1.49, 1.51], Measure.CPU: [1.0, 1.01, 0.99, 1.0]}
    assert answer_of_pairs(seen, ALLOWED) is PairsAnswer.SLOWER


def test_an_estimate_above_the_allowance_with_a_wide_interval_stays_open() -> None:
    seen = {measure: [1.2, 0.9, 1.25, 0.95] for measure in Measure}
    assert answer_of_pairs(seen, ALLOWED) is PairsAnswer.OPEN
    assert answer_of_pairs(seen, ALLOWED, last=True) is PairsAnswer.OPEN


def test_many_comparisons_ask_for_more() -> None:
    seen = {measure: [1.05, 1.06, 1.07, 1.045] for measure in Measure}
    assert answer_of_pairs(seen, ALLOWED) is PairsAnswer.SLOWER
    assert answer_of_pairs(seen, ALLOWED, comparisons=200) is PairsAnswer.OPEN
    assert corrected(5, 0.95) == pytest.approx(0.99)


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=12))
def test_the_inverse_question_has_the_inverse_answer(ratios: list[float]) -> None:
    found = over_pairs(ratios)
    other = over_pairs([1 / ratio for ratio in ratios])
    assert found.low <= found.value <= found.high
    assert other.value == pytest.approx(1 / found.value)
    assert other.low == pytest.approx(1 / found.high)


def test_one_pair_has_no_interval() -> None:
    with pytest.raises(ValueError, match="at least two"):
        over_pairs([1.0])
