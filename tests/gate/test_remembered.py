"""Budgets on what a policy remembers, against what a study found."""

from __future__ import annotations

import pytest

from rnncheck.errors import Place
from rnncheck.gate.remembered import MemoryBudget, memory_items
from rnncheck.results.gate import Ruling
from rnncheck.results.memory import (
    Estimated,
    InfluenceCurve,
    MemoryResult,
    ReturnsUnder,
)


def found(half_life: Estimated | None, horizon: int = 9) -> MemoryResult:
    curve = InfluenceCurve(
        "values", "difference", "replaced", "", None, (), 0.0, 20, horizon, None, half_life
    )
    lost = ReturnsUnder("reset every step", (1.0, 2.0), Estimated(3.0, 2.0, 4.0))
    return MemoryResult(curves=(curve,), returns=(lost,))


def ruling(metric: str, limit: float, result: MemoryResult) -> Ruling:
    (item,) = memory_items([MemoryBudget(metric, limit, Place("x.yaml"))], result)
    return item.ruling


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [(4.0, Ruling.PASSED), (8.0, Ruling.UNCLEAR), (12.0, Ruling.FAILED)],
)
def test_an_interval_is_held_against_the_limit(limit: float, wanted: Ruling) -> None:
    assert ruling("half_life_min", limit, found(Estimated(8.0, 5.0, 10.0))) is wanted


def test_what_the_data_end_before_fails_nothing() -> None:
    half_life = Estimated(8.0, 8.0, 8.0, beyond=True)
    assert ruling("half_life_min", 8.0, found(half_life)) is Ruling.PASSED
    assert ruling("half_life_min", 9.0, found(half_life)) is Ruling.UNCLEAR


def test_a_policy_that_remembers_nothing_fails() -> None:
    assert ruling("half_life_min", 1.0, found(None, horizon=0)) is Ruling.FAILED


def test_an_influence_that_still_grows_at_its_last_lag_is_unclear() -> None:
    """A cue that is kept to the end has no half-life: the episodes end before it."""
    assert ruling("half_life_min", 8.0, found(None)) is Ruling.UNCLEAR
    untold = MemoryResult(curves=found(None).curves)
    assert ruling("return_gain_min", 1.0, untold) is Ruling.FAILED


def test_a_study_that_told_nothing_fails() -> None:
    assert ruling("return_gain_min", 1.0, MemoryResult()) is Ruling.FAILED
    assert ruling("return_gain_min", 1.5, found(None)) is Ruling.PASSED
