"""Every format of canned runs, as it is today. ``pytest tests/report --snapshot-update`` takes a
change over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from rnncheck.report.console import render as render_console
from rnncheck.report.formats import FORMATS, render
from rnncheck.results.model import Run
from tests.report.canned import RUNS
from tests.report.gated import ACCEPTED, GATED, PASSED, STRICT


@pytest.mark.parametrize("name", ["healthy", "broken", "hostile"])
@pytest.mark.parametrize("form", FORMATS)
def test_format(form: str, name: str, snapshot: SnapshotAssertion) -> None:
    assert render(RUNS[name], form) == snapshot


@pytest.mark.parametrize("name", RUNS)
def test_console_at_80_columns(name: str, snapshot: SnapshotAssertion) -> None:
    assert render_console(RUNS[name], width=80) == snapshot


@pytest.mark.parametrize("width", [60, 120])
def test_console_of_a_broken_run(width: int, snapshot: SnapshotAssertion) -> None:
    assert render_console(RUNS["broken"], width=width, verbose=True) == snapshot


@pytest.mark.parametrize("form", FORMATS)
def test_gate(form: str, snapshot: SnapshotAssertion) -> None:
    run = replace(GATED, cells=()) if form == "html" else GATED  # plots are no text to compare
    assert render(run, form) == snapshot


@pytest.mark.parametrize("run", [PASSED, STRICT, ACCEPTED], ids=["passed", "strict", "accepted"])
@pytest.mark.parametrize("width", [60, 100])
def test_console_of_a_gate(width: int, run: Run, snapshot: SnapshotAssertion) -> None:
    assert render_console(run, width) == snapshot
