"""Numbers and strings as reports show them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncheck.report import text
from rnncheck.results.model import Finding, Outcome, Stage, StageResult
from tests.report.canned import make

FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


@given(FINITE, FINITE)
def test_a_bound_that_would_have_passed_still_passes_when_it_is_read_back(
    value: float, bound: float
) -> None:
    shown = float(text.passing(_finding(value, bound)))
    assert shown >= value if value >= bound else shown <= value


def _finding(passing_bound: float | None, bound: float | None) -> Finding:
    return Finding("EQ201", Stage.POLICY, "m", bound=bound, passing_bound=passing_bound)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_no_bound_passes_what_is_not_finite(value: float) -> None:
    assert text.passing(_finding(value, 1.0)) == f"no bound ({value})"


@given(FINITE, FINITE)
def test_two_numbers_that_differ_are_shown_differently(one: float, other: float) -> None:
    shown = text.measured_and_bound(one, other)
    assert (shown[0] == shown[1]) == (one == other)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (1000.0, "1000"), (0.0123456, "0.01235"), (1e-7, "1e-07"), (math.nan, "nan")],
)
def test_number(value: float, shown: str) -> None:
    assert text.number(value) == shown


def test_a_stage_that_nobody_could_look_into_is_named_with_its_reason() -> None:
    stages = (
        StageResult(Stage.REPLAY, Outcome.NOT_APPLICABLE),
        StageResult(Stage.LOSS, Outcome.NOT_LOOKED, "no kernel"),
    )
    said = text.unchecked(make(stages=stages))
    assert said == "not checked, since the spec leaves them out: replay; since no kernel: loss"
