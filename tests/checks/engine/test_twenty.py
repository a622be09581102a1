"""One fault at a time: it is named first, what follows is folded under it, and its printed fix
makes the run green."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.report.causes import facts_of, findings_in_order, root_of
from rnncheck.results.causes import causes_of
from rnncheck.results.model import Run
from tests.checks.engine.twenty import (
    PAIRS,
    PPO,
    R2D2,
    ROWS,
    Row,
    is_green,
    line_of,
    printed_fix,
    verified,
)
from tests.invariants import assert_ends_with_its_cause

TABLE = (Path(__file__).parents[3] / "docs" / "concepts" / "causes.md").read_text("utf-8")
CHEAP = (
    "ppo-missing-tracker", "ppo-shared-state-key", "r2d2-missing-primer", "r2d2-unmarked-slices"
)  # fmt: skip


def test_each_pipeline_has_ten() -> None:
    assert len(PPO) >= 10 and len(R2D2) >= 10
    assert len({row.id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", [row for row in ROWS if row.id in CHEAP], ids=lambda row: row.id)
def test_the_check_names_the_fault_and_passes_once_it_is_fixed(row: Row) -> None:
    run = verified(row.pipeline, row.fault, row.code, repair=False)
    (cause,) = causes_of(run)
    assert cause.code == row.code and row.says in printed_fix(run, cause)
    assert_no_follower_advises(run)
    fixed = verified(row.pipeline, row.fault + row.fixes[-1], row.code, repair=False)
    assert causes_of(fixed) == ()
    assert is_green(fixed)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["ppo", "r2d2"])
def test_without_a_fault_it_is_green(pipeline: str) -> None:
    assert is_green(verified(pipeline, ()))


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_fault_is_the_one_cause_and_its_fix_is_proved(row: Row) -> None:
    run = verified(row.pipeline, row.fault)
    (cause,) = causes_of(run)
    assert cause.code == row.code and row.says in printed_fix(run, cause)
    assert bool(cause.proved) is row.repaired
    assert_ends_with_its_cause(run)
    assert_no_follower_advises(run)
    assert line_of(row, run, green=True) in TABLE  # green is the next test's


def assert_no_follower_advises(run: Run) -> None:
    """What follows from a cause names neither a fault nor a fix of its own."""
    for check, _, finding in findings_in_order(run):
        labels = {label for label, _ in facts_of(run, check, finding)}
        assert bool({"cause", "fix"} & labels) is not bool(root_of(run, check))


def test_the_page_has_a_line_for_each_fault() -> None:
    assert all(f"| {row.id} | {row.code} |" in TABLE for row in ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_printed_fix_makes_the_run_green(row: Row) -> None:
    for fix in row.fixes:
        assert is_green(verified(row.pipeline, row.fault + fix, repair=False)), fix


@pytest.mark.slow
@pytest.mark.parametrize(("pipeline", "faults", "asked", "causes"), PAIRS)
def test_two_faults_at_once_are_two_causes(
    pipeline: str, faults: tuple[str, ...], asked: tuple[str, ...], causes: tuple[str, ...]
) -> None:
    found = causes_of(verified(pipeline, faults, *asked))
    assert tuple(cause.code for cause in found) == causes
    follow = {one.code for cause in found for one in cause.followers}
    assert follow == set(asked) - set(causes)
