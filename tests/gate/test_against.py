"""What the gate makes of two sides: their checks, and what was measured of a cell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rnncheck.bench.messages import CellPrepared
from rnncheck.bench.side_comparison import CellComparison, ComparisonRules, SideComparison
from rnncheck.bench.sides import Side, check_python, find_python, make_import_folder
from rnncheck.errors import UserError
from rnncheck.gate.against import comparison_item, held_against
from rnncheck.numerics.stopping import Measure
from rnncheck.results.cells import Accuracy, Cell, Phase
from rnncheck.results.gate import Ruling
from rnncheck.results.model import CheckResult, Outcome, Severity, Stage
from rnncheck.results.variant import OWN

CELL = Cell(Phase.TRAIN, OWN, 32, 64, 0.03)
RIGHT = Accuracy(1e-7, 1e-6, gradient=1e-7, gradient_bound=1e-6)
HERE, THERE = Side("here", "python", "spec.yaml"), Side("there", "other", "spec.yaml")


def check(outcome: Outcome, code: str = "EQ202", accepted: str = "") -> CheckResult:
    return CheckResult(
        code, "end-state-wrong", Severity.ERROR, Stage.POLICY, outcome, "why", accepted=accepted
    )


@pytest.mark.parametrize(
    ("there", "here", "ruling", "said"),
    [
        (Outcome.PASSED, Outcome.FAILED, Ruling.FAILED, "newly fails"),
        (Outcome.FAILED, Outcome.PASSED, Ruling.NOTED, "fixed"),
        (Outcome.FAILED, Outcome.NOT_LOOKED, Ruling.NOTED, "no longer told"),
    ],
)
def test_a_check_on_both_sides(there: Outcome, here: Outcome, ruling: Ruling, said: str) -> None:
    (item,) = held_against([check(here)], [check(there)])
    assert item.ruling is ruling
    assert said in item.reason


def test_a_new_failure_that_is_accepted_is_noted() -> None:
    known = check(Outcome.FAILED, accepted="known (until 2099-01-01)")
    (item,) = held_against([known], [check(Outcome.PASSED)])
    assert item.ruling is Ruling.NOTED


def test_what_ran_on_one_side_alone_is_not_compared() -> None:
    assert not list(held_against([check(Outcome.PASSED, "EQ203")], [check(Outcome.PASSED)]))


def ruled(comparison: CellComparison, *others: CellComparison) -> tuple[Ruling, str]:
    both_sides = SideComparison((HERE, THERE), [], ComparisonRules(0.03, 60, 60))
    both_sides.cells = [comparison, *others]
    item = comparison_item(comparison, both_sides, "there")
    return item.ruling, item.reason


def prepared(accuracy: Accuracy) -> CellPrepared:
    return CellPrepared(CELL.key, 0.1, None, 0.01, 3, True, accuracy, None, "kernels")


def comparison(wall: list[float], cpu: list[float] | None = None) -> CellComparison:
    told = {"here": prepared(RIGHT), "there": prepared(RIGHT)}
    ratios = {Measure.WALL: wall, Measure.CPU: cpu or wall}
    return CellComparison(CELL, ratios, told)


def test_speed_over_pairs() -> None:
    assert ruled(comparison([1.0, 1.01, 0.99, 1.0]))[0] is Ruling.PASSED
    assert ruled(comparison([1.2, 1.19, 1.21, 1.2]))[0] is Ruling.SLOWER
    assert ruled(comparison([0.8, 0.81, 0.79, 0.8]))[0] is Ruling.PASSED
    assert ruled(comparison([1.3, 0.9, 1.2, 0.95]))[0] is Ruling.UNCLEAR
    assert "error against float64 1e-07 here, 1e-07 there" in ruled(comparison([1.0] * 4))[1]


def test_a_cell_that_is_missing_here_fails_and_one_that_is_missing_there_does_not() -> None:
    assert ruled(replace(comparison([]), end={"here": "it raised"}))[0] is Ruling.FAILED
    new = replace(comparison([]), end={"there": "no scan there"})
    assert ruled(new, comparison([1.0] * 4))[0] is Ruling.NOTED
    assert ruled(new, new)[0] is Ruling.UNCLEAR  # nothing was compared
    both = replace(comparison([]), end={"here": "it raised", "there": "it raised"})
    assert ruled(both)[0] is Ruling.FAILED


def test_numbers_that_are_wrong_here_alone_fail() -> None:
    wrong = prepared(replace(RIGHT, output=0.1))
    fast = comparison([0.5] * 4)
    fast.told["here"] = wrong
    assert ruled(fast)[0] is Ruling.FAILED
    fast.told["there"] = wrong
    assert ruled(fast)[0] is Ruling.PASSED


def test_an_interpreter_is_found_by_itself_and_by_its_environment(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    assert find_python(str(python)) == find_python(str(tmp_path)) == str(python)
    with pytest.raises(UserError, match="no Python interpreter"):
        find_python(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("echo 3 11; echo torch scipy", "lacks torch, scipy"),
        ("echo 3 8; echo", "Python 3.8"),
        ("echo what", "does not run as a Python interpreter"),
        ("exit 3", "does not run as a Python interpreter"),
    ],
)
def test_an_interpreter_that_cannot_be_the_other_side(
    tmp_path: Path, answer: str, said: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{answer}\n")
    python.chmod(0o755)
    with pytest.raises(UserError, match=said):
        check_python(str(python))


def test_the_shelf_holds_this_package_alone(tmp_path: Path) -> None:
    import_folder = make_import_folder(tmp_path)
    assert [path.name for path in import_folder.iterdir()] == ["rnncheck"]
    assert (import_folder / "rnncheck" / "bench" / "worker.py").exists()
