"""What a terminal of 80 columns shows last of every broken fixture, as it is today.

``pytest tests/test_last_lines.py -m slow --snapshot-update`` takes a change over: read it first.
The checks of the fixture's own family are asked, and nothing is repaired: how many repairs there is
time for is the machine's.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.report.console import render
from rnncheck.report.ending import LAST
from rnncheck.results.collect import RunCollector
from rnncheck.spec.load import load_spec
from tests import test_fixtures, test_training_fixtures
from tests.extent import code_of

ROOT = Path(__file__).parent.parent
BROKEN = [f"broken/{name}" for name in test_fixtures.FAULTS]
TRAINING = [f"training/{name}" for name in test_training_fixtures.FAULTS]


def last_lines(path: Path, family: str) -> str:
    spec, collector = load_spec(path), RunCollector()
    for event in verify_events(spec, select_rules(spec, (family,))):
        collector(event)
    run = collector.finish(interrupted=False, seconds=0.0)
    shown = render(run, 80).rstrip("\n").rpartition("\n\n")[2]
    return re.sub(r"\d+(?=e\+\d\d times)", "N", shown)  # rounding that grew is the processor's


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN + TRAINING)
def test_last_lines(
    name: str, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    shown = last_lines(Path("fixtures") / f"{name}.yaml", code_of(Path(name).name)[:2])
    assert len(shown.splitlines()) <= LAST
    assert shown == snapshot
