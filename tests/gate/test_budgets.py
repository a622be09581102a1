"""Budgets: which cells each needs, and that only a whole interval breaks or keeps one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rnncheck.errors import SpecError
from rnncheck.gate.budgets import Budget, BudgetedNumber, budget_item, budgets_of, limit_ruling
from rnncheck.gate.cells import asked_cells, with_reference
from rnncheck.results.cells import Accuracy, CellResult, Memory, Samples, Status, Timing
from rnncheck.results.gate import Ruling
from rnncheck.results.variant import OWN, Variant
from rnncheck.spec.load import spec_from_text
from rnncheck.spec.model import Spec

HEAD = "schema: 1\nname: x\nenv: E\npolicy: [M]\n"
MIB = 2**20


def spec(budgets: str, bench: str = "{}") -> Spec:
    return spec_from_text(f"{HEAD}bench: {bench}\ngate: {{budgets: [{budgets}]}}\n", "s.yaml")


def budget(text: str) -> Budget:
    (found,) = budgets_of(spec(text))
    return found


def measured(cell: Any, seconds: float, **more: Any) -> CellResult:
    """A row whose 40 rounds differ by a few parts in a thousand."""
    wall = tuple(seconds * (1 + 0.001 * (i % 5 - 2)) for i in range(40))
    timing = Timing(seconds, seconds * 0.998, seconds * 1.002, 40, "interval reached")
    samples = Samples(tuple(range(40)), wall, wall)
    given = {"samples": samples, "timing": timing, "accuracy": Accuracy(2e-7, 1e-5, 5e-7, 1e-4)}
    return CellResult(cell, Status.OK, **(given | more))


def rows(found: Budget, *seconds: float, **more: Any) -> dict[str, CellResult]:
    return {c.key: measured(c, s, **more) for c, s in zip(found.cells, seconds, strict=True)}


@pytest.mark.parametrize(
    ("text", "seconds", "ruling", "value"),
    [
        ("train_ms: {max: 12}", (10e-3,), Ruling.PASSED, 10),
        ("train_ms: {max: 9}", (10e-3,), Ruling.SLOWER, 10),
        ("train_ms: {max: 10.1}", (10e-3,), Ruling.UNCLEAR, 10),
        ("speedup: {variant: scan, min: 1.5}", (10e-3, 20e-3), Ruling.PASSED, 2),
        ("speedup: {variant: scan, min: 2.5}", (10e-3, 20e-3), Ruling.SLOWER, 2),
        ("speedup: {variant: scan, min: 2.02}", (10e-3, 20e-3), Ruling.UNCLEAR, 2),
        ("overhead: {max: 1.2}", (11e-3, 10e-3), Ruling.PASSED, 1.1),
        ("overhead: {max: 1.05}", (12e-3, 10e-3), Ruling.SLOWER, 1.2),
        ("error: {max: 1.0e-6}", (1.0,), Ruling.PASSED, 5e-7),
        ("error: {max: 1.0e-7}", (1.0,), Ruling.SLOWER, 5e-7),
    ],
)
def test_only_a_whole_interval_breaks_or_keeps_a_budget(
    text: str, seconds: tuple[float, ...], ruling: Ruling, value: float
) -> None:
    found = budget(f"{{{text}}}")
    item = budget_item(found, rows(found, *seconds))
    assert item.ruling is ruling
    assert item.value == pytest.approx(value, rel=0.01)
    assert item.low is not None and item.high is not None
    assert item.low <= item.value <= item.high
    assert (item.path, item.line, item.column) == ("s.yaml", 6, 19)


@pytest.mark.parametrize(
    ("low", "high", "ruling"),
    [(9, 11, Ruling.UNCLEAR), (9, 10, Ruling.PASSED), (10.5, 12, Ruling.SLOWER)],
)
def test_memory_is_judged_by_the_least_and_the_most(
    low: float, high: float, ruling: Ruling
) -> None:
    found = budget("{memory_mib: {max: 10}}")
    memory = Memory(int(10.2 * MIB), low=int(low * MIB), high=int(high * MIB))
    assert budget_item(found, rows(found, 1.0, memory=memory)).ruling is ruling


def test_an_unclear_budget_fails_under_strict_alone() -> None:
    found = budget("{train_ms: {max: 10.1}}")
    item = budget_item(found, rows(found, 10e-3))
    assert not item.fails(strict=False)
    assert item.fails(strict=True)


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
def test_a_cell_that_does_not_count_fails_whatever_its_number(status: Status) -> None:
    found = budget("{speedup: {variant: scan, min: 0.1}}")
    for cell in found.cells:
        there = rows(found, 1.0, 1.0)
        there[cell.key] = replace(there[cell.key], status=status, reason="because")
        item = budget_item(found, there)
        assert item.ruling is Ruling.FAILED
        assert f"{cell.label}: {status} (because)" in item.reason
    assert budget_item(found, {}).ruling is Ruling.FAILED


def test_what_could_not_be_measured_of_a_good_cell_fails() -> None:
    for text, word in (("memory_mib", "memory"), ("error", "error")):
        found = budget(f"{{{text}: {{max: 1}}}}")
        item = budget_item(found, rows(found, 1.0, accuracy=None, memory=None))
        assert (item.ruling, word in item.reason) == (Ruling.FAILED, True)


def test_nan_is_never_within() -> None:
    nan = float("nan")
    assert limit_ruling(BudgetedNumber(nan, nan, nan), 1.0, "max") is Ruling.UNCLEAR


def test_the_cells_come_from_the_sweeps_shapes() -> None:
    bench = "{shapes: [{batch: 4, steps: 8}, {batch: 9}], resets: [0, 0.25]}"
    one, two, acts = budgets_of(
        spec(
            "{train_ms: {max: 1}}, {forward_ms: {max: 1, batch: 2, resets: 0}}, {act_ms: {max: 1}}",
            bench,
        )
    )
    assert one.cell.label == "own | train, 4 x 8, 0.25 resets"
    assert two.cell.label == "own | forward, 2 x 8, 0 resets"
    assert acts.cell.label == "own | act, 4"


def test_a_bare_module_is_measured_in_the_rounds_of_its_policy() -> None:
    from rnncheck.bench.plan import groups

    found = budgets_of(spec("{overhead: {max: 2}}, {speedup: {variant: scan, min: 1}}"))
    cells = [cell for one in found for cell in one.cells]
    (group,) = groups(cells)
    assert [(c.variant.label, c.target) for c in group] == [
        ("own", "policy"),
        ("own", "module"),
        ("scan", "policy"),
        ("pad", "policy"),
    ]


def test_a_baseline_needs_the_reference_of_what_it_compares() -> None:
    asked = spec("")
    cells = with_reference(asked_cells(asked), asked)
    assert [cell.variant for cell in cells] == [OWN, Variant()]


@pytest.mark.parametrize(
    ("text", "column", "hint"),
    [
        ("speedup: {variant: scam, min: 1}", 29, "did you mean 'scan'?"),
        ("speedup: {over: pat, min: 1}", 29, "did you mean 'pad'?"),
        ("train_ms: {max: 1, variant: scan-compilde}", 38, "did you mean 'compiled'?"),
    ],
)
def test_a_variant_that_is_none_is_found_in_its_line(text: str, column: int, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        budget(f"{{{text}}}")
    error = caught.value
    assert error.place is not None
    assert (error.place.line, error.place.column) == (6, column)
    assert error.accepted.startswith("own; ")
    assert error.hint == hint
