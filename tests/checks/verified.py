"""Running checks on a fixture, with some of its lines changed."""

from __future__ import annotations

from pathlib import Path

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.results.collect import RunCollector
from rnncheck.results.model import CheckResult, Outcome, Run
from rnncheck.spec.load import load_spec

FIXTURES = Path(__file__).parents[2] / "fixtures"


def verified(path: Path, families: tuple[str, ...] = (), *changes: str) -> Run:
    """The run of ``rnncheck verify`` with these checks, after ``--set`` of every change."""
    spec, collector = load_spec(path, changes), RunCollector()
    for event in verify_events(spec, select_rules(spec, families)):
        collector(event)
    return collector.finish(interrupted=False, seconds=0.0)


def failed(run: Run) -> set[str]:
    """Codes of the checks that found something."""
    assert not [check for check in run.checks if check.outcome is Outcome.ERROR]
    return {check.code for check in run.checks if check.outcome is Outcome.FAILED}


def result(run: Run, code: str) -> CheckResult:
    """What one check concluded."""
    (found,) = [check for check in run.checks if check.code == code]
    return found
