"""A sweep in every format that shows one."""

from __future__ import annotations

import csv

import pytest
from syrupy.assertion import SnapshotAssertion

from rnncheck.report.console import render as render_console
from rnncheck.report.formats import render
from tests.report.swept import SWEEP


@pytest.mark.parametrize("form", ["markdown", "csv", "jsonl"])
def test_format(form: str, snapshot: SnapshotAssertion) -> None:
    assert render(SWEEP, form) == snapshot


@pytest.mark.parametrize("width", [60, 80, 120])
def test_console(width: int, snapshot: SnapshotAssertion) -> None:
    shown = render_console(SWEEP, width=width)
    assert max(map(len, shown.splitlines())) <= width
    assert shown == snapshot


def test_the_page_shows_rows_plots_and_advice() -> None:
    page = render(SWEEP, "html")
    assert page.count("<svg") == 2  # speed against error, memory against speed
    assert "scan-compiled, 1.87 times as fast as pad" in page
    assert "does not hold" in page
    assert "WRONG: output error 0.1" in page


def test_a_missing_row_is_a_row_with_its_reason() -> None:
    rows = list(csv.DictReader(render(SWEEP, "csv").splitlines()))
    (missing,) = (row for row in rows if row["variant"] == "triton")
    assert (missing["status"], missing["reason"]) == ("cannot", "no CUDA device here")
    assert missing["median_s"] == ""
