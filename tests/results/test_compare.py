"""Two runs row by row: what may be called faster, and what may not be compared at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rnncheck.results.cells import Cell, CellResult, Phase, Ratio, Status, Timing, cell_to_json
from rnncheck.results.changes import Change
from rnncheck.results.collect import RunCollector
from rnncheck.results.compare import compare_runs
from rnncheck.results.model import CheckResult, Outcome, Run, Severity, Stage
from rnncheck.results.variant import Variant

CELL = Cell(Phase.TRAIN, Variant("scan"), 8, 16, 0.03)
EMPTY = RunCollector().finish(interrupted=False, seconds=0.0)


def row(value: float | None = None, status: Status = Status.OK, seconds: float = 1.0) -> CellResult:
    ratio = None if value is None else Ratio("pad", value, value * 0.965, value * 1.036)
    timing = Timing(seconds, seconds * 0.995, seconds * 1.005, 40, "interval reached")
    return CellResult(CELL, status, timing=timing, ratio=ratio)


def run_of(*rows: CellResult, checks: tuple[CheckResult, ...] = ()) -> Run:
    return replace(EMPTY, cells=tuple(map(cell_to_json, rows)), checks=checks)


def check(outcome: Outcome) -> CheckResult:
    return CheckResult("BD301", "state-crosses-reset", Severity.ERROR, Stage.POLICY, outcome)


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        (row(2.0), row(2.02), Change.SAME),
        (row(2.0), row(1.6), Change.SLOWER),
        (row(2.0), row(2.5), Change.FASTER),
        (
            row(2.0),
            row(1.92),
            Change.UNCLEAR,
        ),  # beyond the allowance, within what processes differ by
        (row(2.0), row(2.0, Status.WRONG), Change.BROKEN),
        (row(2.0, Status.CRASHED), row(2.0), Change.FIXED),
        (row(seconds=1.0), row(seconds=1.3), Change.SLOWER),
    ],
)
def test_a_row_is_judged_by_its_ratio_or_on_one_machine_by_its_time(
    old: CellResult, new: CellResult, change: Change
) -> None:
    (found,) = compare_runs(run_of(old), run_of(new))
    assert found.change is change


def test_rows_that_only_one_side_has_are_named() -> None:
    assert [c.change for c in compare_runs(run_of(row()), run_of())] == [Change.GONE]
    assert [c.change for c in compare_runs(run_of(), run_of(row()))] == [Change.NEW]


def test_times_of_another_machine_are_not_comparable_but_speed_ups_are() -> None:
    other = replace(EMPTY.environment, cpu="another", threads=64)
    first, second = run_of(row(seconds=1.0)), run_of(row(seconds=9.0))
    (found,) = compare_runs(first, replace(second, environment=other))
    assert found.change is Change.INCOMPARABLE
    assert "cpu" in found.reason
    (found,) = compare_runs(run_of(row(2.0)), replace(run_of(row(2.0)), environment=other))
    assert found.change is Change.SAME


def test_checks_that_newly_fail_or_vanish_are_rows_too() -> None:
    passed, failed = (
        run_of(checks=(check(Outcome.PASSED),)),
        run_of(checks=(check(Outcome.FAILED),)),
    )
    assert [c.change for c in compare_runs(passed, failed)] == [Change.FAILS]
    assert [c.change for c in compare_runs(failed, passed)] == [Change.PASSES]
    assert [c.change for c in compare_runs(passed, EMPTY)] == [Change.GONE]
    unseen = run_of(checks=(check(Outcome.NOT_LOOKED),))
    assert [c.change for c in compare_runs(passed, unseen)] == [Change.BROKEN]
