"""The documentation's claims: each can hold, fail, stay unclear or be untestable, and says which
rows decided."""

from __future__ import annotations

import pytest

from rnncheck.bench.claims import VARIANTS, answers, claim_cells
from rnncheck.results.cells import Cell, CellResult, Phase, Status
from rnncheck.results.claims import Answer
from rnncheck.results.variant import Variant
from tests.bench.rows import row

CELLS = claim_cells(
    [Cell(Phase.TRAIN, Variant(), 4, 16, 0.03), Cell(Phase.ACT, Variant(), 4, 1, 0.0)]
)
SPEEDS = {
    "pad": 1.0, "scan": 4.0, "scan-recompute": 5.0, "scan-compiled": 0.5, "pad-compiled": 1.0,
    "auto": 1.0, "auto-compiled": 0.5,
}  # fmt: skip
PEAKS = {"pad": 8, "scan": 6, "scan-recompute": 3}


def rows(**changes: CellResult) -> list[CellResult]:
    made = {
        name: row(name, speed, peak=PEAKS.get(name, 8) * 2**20) for name, speed in SPEEDS.items()
    }
    left = [name for name in map(str, VARIANTS) if name not in made]
    made |= {
        name: CellResult(c, Status.CANNOT, "no CUDA")
        for name in left
        for c in CELLS
        if c.variant.label == name
    }
    return list((made | {key.replace("_", "-"): value for key, value in changes.items()}).values())


def answer(results: list[CellResult], beginning: str) -> Answer:
    return next(c.answer for c in answers(results, CELLS) if c.text.startswith(beginning))


def test_the_claims_are_asked_where_training_is_largest() -> None:
    assert {(c.phase, c.steps, c.resets) for c in CELLS} == {(Phase.TRAIN, 16, 0.03)}
    assert [c.variant for c in CELLS] == list(VARIANTS)


@pytest.mark.parametrize(
    ("beginning", "wanted"),
    [
        ("pad is the safe", Answer.HOLDS),
        ("scan avoids", Answer.HOLDS),
        ("scan is the compile", Answer.HOLDS),
        ("triton has", Answer.UNTESTED),
        ("tf32 is", Answer.UNTESTED),
        ("tf32x3 is", Answer.UNTESTED),
        ("recompute=full", Answer.HOLDS),
        ("auto picks", Answer.HOLDS),
    ],
)
def test_each_claim_can_hold_or_cannot_be_tested(beginning: str, wanted: Answer) -> None:
    assert answer(rows(), beginning) is wanted


def test_each_claim_can_fail() -> None:
    worse = rows(
        pad=row("pad", 1.0, status=Status.WRONG),
        scan=row("scan", 0.4, peak=30 * 2**20),
        scan_recompute=row("scan-recompute", 0.3, peak=40 * 2**20),
        triton=row("triton", 9.0),
        triton_tf32=row("triton-tf32", 3.0, error=1e-3),
        triton_tf32x3=row("triton-tf32x3", 1.0, error=1e-3),
        triton_ieee=row("triton-ieee", 1.0),
    )
    found = {claim.text: claim.answer for claim in answers(worse, CELLS)}
    failing = [text for text, one in found.items() if one is Answer.FAILS]
    assert len(failing) == 7
    assert answer(rows(auto=row("auto", 9.0)), "auto picks") is Answer.FAILS
    assert answer(rows(scan=row("scan", 4.0, peak=30 * 2**20)), "scan avoids") is Answer.FAILS


def test_an_answer_names_its_numbers_and_its_rows() -> None:
    claim = next(c for c in answers(rows(), CELLS) if c.text.startswith("scan avoids"))
    assert claim.why == "scan peaks at 0.75 times the memory of pad"
    assert len(claim.cells) == 2
