"""Every format of every canned run, as it is today. ``pytest tests/report --snapshot-update`` takes a change over."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from rnncheck.report.console import render as render_console
from rnncheck.report.formats import FORMATS, render
from tests.report.canned import RUNS


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
