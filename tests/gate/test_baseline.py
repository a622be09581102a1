"""The baseline: what has vanished, newly fails or is slower, and what may not be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rnncheck.gate.baseline import Baseline, Present, compared, unmeasured
from rnncheck.gate.guarantees import held_guarantees
from rnncheck.results.cells import Cell, CellResult, Phase, Ratio, Status, Timing
from rnncheck.results.collect import RunCollector
from rnncheck.results.gate import GateItem, Ruling
from rnncheck.results.guarantees import judge_guarantees
from rnncheck.results.model import (
    CheckResult,
    GuaranteeResult,
    Outcome,
    Run,
    Severity,
    SpecRef,
    Stage,
    Standing,
)
from rnncheck.results.variant import OWN, Variant

EMPTY = replace(
    RunCollector().finish(interrupted=False, seconds=0.0),
    command="gate",
    spec=SpecRef("s.yaml", "x", "hash"),
)
AS_IT_IS, PAD = (Cell(Phase.TRAIN, variant, 8, 16, 0.03) for variant in (OWN, Variant()))
NOISY = ("busy machine: other processes used 40% of the CPU",)


def check(outcome: Outcome, code: str = "BD301", accepted: str = "") -> CheckResult:
    return CheckResult(code, "some-name", Severity.ERROR, Stage.POLICY, outcome, accepted=accepted)


def row(
    seconds: float = 1.0,
    speed_up: float | None = None,
    *,
    cell: Cell = AS_IT_IS,
    status: Status = Status.OK,
    width: float = 0.005,
    distrust: tuple[str, ...] = (),
) -> CellResult:
    ratio = None if speed_up is None else Ratio("pad", speed_up, speed_up / 1.036, speed_up * 1.036)
    timing = Timing(seconds, seconds * (1 - width), seconds * (1 + width), 40, "interval reached")
    return CellResult(cell, status, timing=timing, ratio=ratio, distrust=distrust)


def baseline(*rows: CellResult, checks: Sequence[CheckResult] = (), **more: object) -> Baseline:
    run: Run = replace(EMPTY, checks=tuple(checks), **more)  # type: ignore[arg-type]
    return Baseline(run, {one.cell.key: one for one in rows})


def cell_items(before: Baseline, *rows: CellResult, **more: Any) -> list[GateItem]:
    """Without the word that no checks are compared."""
    return [item for item in items(before, *rows, **more) if item.name != "checks"]


def shown(checks: Sequence[CheckResult]) -> Sequence[GuaranteeResult]:
    return judge_guarantees(checks, (), strict=False)


def items(
    before: Baseline,
    *rows: CellResult,
    checks: Sequence[CheckResult] | None = None,
    left_out: Sequence[str] = (),
    cells: Sequence[Cell] = (AS_IT_IS,),
    spec_hash: str = "hash",
    cpu: str | None = None,
) -> list[GateItem]:
    environment = EMPTY.environment
    environment = environment if cpu is None else replace(environment, cpu=cpu)
    mine = {one.cell.key: one for one in rows}
    found = shown(checks or ())
    now = Present(checks, found, left_out, cells, mine, environment, spec_hash)
    return list(compared(before, now, 0.03))


@pytest.mark.parametrize(
    ("old", "new", "ruling", "said"),
    [
        (Outcome.PASSED, check(Outcome.FAILED), Ruling.FAILED, "newly fails"),
        (Outcome.NOT_LOOKED, check(Outcome.FAILED), Ruling.FAILED, "newly fails"),
        (Outcome.PASSED, check(Outcome.FAILED, accepted="why"), Ruling.NOTED, "accepted: why"),
        (Outcome.FAILED, check(Outcome.PASSED), Ruling.NOTED, "no longer fails"),
        (Outcome.FAILED, check(Outcome.NOT_LOOKED), Ruling.NOTED, "could not be told"),
        (Outcome.FAILED, check(Outcome.FAILED), None, ""),
        (Outcome.NOT_APPLICABLE, check(Outcome.PASSED), None, ""),
    ],
)
def test_what_became_of_a_check(
    old: Outcome, new: CheckResult, ruling: Ruling | None, said: str
) -> None:
    found = items(baseline(checks=[check(old)]), checks=[new], cells=())
    mine = [item for item in found if "guarantee" not in item.name]
    assert [item.ruling for item in mine] == ([] if ruling is None else [ruling])
    assert all(said in item.reason for item in mine)


@pytest.mark.parametrize(
    ("old", "new", "ruling", "said"),
    [
        (Outcome.PASSED, check(Outcome.PASSED), Ruling.PASSED, "shown there and shown here"),
        (Outcome.PASSED, check(Outcome.FAILED), Ruling.FAILED, "shown there, broken here"),
        (Outcome.PASSED, check(Outcome.FAILED, accepted="why"), Ruling.PASSED, "shown here"),
        (Outcome.PASSED, check(Outcome.NOT_LOOKED), Ruling.FAILED, "not shown here"),
        (Outcome.PASSED, check(Outcome.ERROR), Ruling.FAILED, "not shown here"),
        (Outcome.PASSED, check(Outcome.NOT_APPLICABLE), Ruling.FAILED, "not asked here"),
        (Outcome.PASSED, None, Ruling.FAILED, "not asked here"),
        (Outcome.VACUOUS, check(Outcome.FAILED), Ruling.FAILED, "broken here"),
        (Outcome.FAILED, check(Outcome.PASSED), Ruling.NOTED, "broken there, shown here"),
        (Outcome.FAILED, None, Ruling.NOTED, "not asked here"),
        (Outcome.FAILED, check(Outcome.FAILED), None, ""),
        (Outcome.NOT_APPLICABLE, None, None, ""),
    ],
)
def test_what_became_of_a_guarantee(
    old: Outcome, new: CheckResult | None, ruling: Ruling | None, said: str
) -> None:
    found = items(baseline(checks=[check(old)]), checks=[] if new is None else [new], cells=())
    mine = [item for item in found if "guarantee" in item.name]
    assert [item.ruling for item in mine] == ([] if ruling is None else [ruling])
    assert all(said in item.reason for item in mine)


def test_a_guarantee_that_is_accepted_has_not_vanished() -> None:
    (old,) = [one for one in shown([check(Outcome.PASSED)]) if one.name == "isolation"]
    new = replace(old, standing=Standing.NOT_SHOWN, because="too little", accepted="known")
    (item,) = held_guarantees([old], [new], partly=False)
    assert item.ruling is Ruling.NOTED and "accepted: known" in item.reason


def test_what_the_command_line_left_out_has_not_vanished() -> None:
    before = baseline(checks=[check(Outcome.PASSED), check(Outcome.PASSED, "BD302")])
    found = items(before, checks=[], left_out=["BD301", "BD302"], cells=())
    assert {item.ruling for item in found} == {Ruling.NOTED}
    assert [item for item in found if "BD301, BD302" in item.reason]
    assert [item.name for item in found if "by the command line" in item.reason]
    (item,) = items(before, checks=None, cells=())
    assert (item.ruling, "--no-verify" in item.reason) == (Ruling.NOTED, True)


def test_a_cell_that_is_gone_or_counts_no_more_fails() -> None:
    (item,) = cell_items(baseline(row(), row(cell=PAD)), row(cell=PAD), cells=())
    assert (item.ruling, item.name) == (Ruling.FAILED, AS_IT_IS.label)
    for status in (Status.CRASHED, Status.WRONG):
        (item,) = unmeasured([AS_IT_IS], {AS_IT_IS.key: row(status=status)})
        assert (item.ruling, str(status) in item.reason) == (Ruling.FAILED, True)
    assert not list(unmeasured([AS_IT_IS], {AS_IT_IS.key: row()}))


def test_a_mere_reference_may_change() -> None:
    before = baseline(row(speed_up=1.0), row(cell=PAD))
    assert {item.ruling for item in cell_items(before, row())} == {Ruling.PASSED}


def test_a_new_cell_is_named() -> None:
    (item,) = cell_items(baseline(), row())
    assert (item.ruling, "not in the baseline" in item.reason) == (Ruling.NOTED, True)


@pytest.mark.parametrize(
    ("seconds", "ruling"),
    [
        (1.0, Ruling.PASSED),
        (1.02, Ruling.PASSED),
        (0.8, Ruling.PASSED),
        (1.04, Ruling.UNCLEAR),  # beyond the allowance, within what processes differ by
        (1.2, Ruling.SLOWER),
    ],
)
def test_times_on_one_machine(seconds: float, ruling: Ruling) -> None:
    (item,) = cell_items(baseline(row()), row(seconds))
    assert (item.ruling, item.value) == (ruling, pytest.approx(seconds))


def test_a_time_that_was_disturbed_is_not_called_slower() -> None:
    for old, new in ((row(distrust=NOISY), row(1.2)), (row(), row(1.2, distrust=NOISY))):
        (item,) = cell_items(baseline(old), new)
        assert (item.ruling, NOISY[0] in item.reason) == (Ruling.UNCLEAR, True)


def test_a_wide_interval_is_no_agreement() -> None:
    (item,) = cell_items(baseline(row(width=0.3)), row())
    assert item.ruling is Ruling.UNCLEAR


def test_on_another_machine_the_speed_up_alone_is_compared() -> None:
    before = baseline(row(speed_up=2.0))
    one, other = cell_items(before, row(1.9, 1.5), cpu="another")
    assert {one.ruling, other.ruling} == {Ruling.INCOMPARABLE, Ruling.SLOWER}
    assert any("/ another" in item.reason for item in (one, other))
    rulings = [item.ruling for item in cell_items(before, row(1.9, 1.98), cpu="another")]
    assert sorted(rulings) == sorted([Ruling.INCOMPARABLE, Ruling.PASSED])


def test_the_interval_widens_with_the_number_of_comparisons() -> None:
    cells = [replace(AS_IT_IS, batch=size) for size in range(1, 30)]
    before = baseline(*(row(cell=cell) for cell in cells))
    now = [row(1.06 if i == 0 else 1.0, cell=cell) for i, cell in enumerate(cells)]
    alone = cell_items(before, now[0], cells=cells[:1])
    among = cell_items(before, *now, cells=cells)
    assert Ruling.SLOWER in [item.ruling for item in alone]
    assert Ruling.SLOWER not in [item.ruling for item in among]


def test_a_spec_that_changed_is_noted() -> None:
    (item,) = items(baseline(), cells=(), spec_hash="another", checks=[check(Outcome.PASSED)])[:1]
    assert (item.name, item.ruling) == ("spec", Ruling.NOTED)


def test_the_cells_of_a_sweep_were_never_the_gates() -> None:
    (item,) = cell_items(baseline(row(), command="bench"), cells=())
    assert item.ruling is Ruling.NOTED
