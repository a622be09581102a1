"""What a fast run asks, and what it says of the rest."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import rnncheck
from rnncheck.checks.engine.registry import rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.checks.engine.verification import Verification
from rnncheck.checks.rule import Judgement, Rule
from rnncheck.results.collect import RunCollector
from rnncheck.results.events import CheckFinished, ChecksLeftOut
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.guarantees import GUARANTEES
from rnncheck.results.model import Outcome, Run, Severity, Stage, Standing
from rnncheck.spec.load import load_spec
from rnncheck.spec.model import Spec
from tests.small import PIPELINE

DEAR = {rule.code for rule in rules() if rule.dear}


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    (tmp_path / "rnncheck.yaml").write_text(PIPELINE)
    return load_spec(tmp_path / "rnncheck.yaml")


def rule(code: str, run: Any = lambda evidence: Judgement((), 1, "one"), **more: Any) -> Rule:
    return Rule(code, code.lower(), Severity.ERROR, Stage.POLICY, run, **more)


def waits(evidence: Any) -> Judgement:
    time.sleep(100.0)
    return Judgement((), 1, "")


def ran(spec: Spec, *rules_: Rule, fast: bool) -> Run:
    listener = RunCollector()
    for event in verify_events(spec, rules_, fast=fast):
        listener(event)
    return listener.finish(interrupted=False, seconds=0.0)


def test_dear_checks_are_asked_last_and_listed_in_their_place(spec: Spec) -> None:
    given = [rule(f"MY00{number}", dear=number % 2 == 1) for number in (1, 2, 3, 4)]
    listener, asked = RunCollector(), list[str]()
    for event in verify_events(spec, given):
        listener(event)
        asked += [event.result.code] if isinstance(event, CheckFinished) else []
    assert asked == ["MY002", "MY004", "MY001", "MY003"]
    run = listener.finish(interrupted=False, seconds=0.0)
    assert [check.code for check in run.checks] == ["MY001", "MY002", "MY003", "MY004"]
    assert run.guarantees[-1].rests_on == ("MY001", "MY002", "MY003", "MY004")


def test_dear_checks_are_left_out_and_said(spec: Spec) -> None:
    asked, dear = rule("MY001"), rule("MY002", dear=True)
    run = ran(spec, asked, dear, fast=True)
    assert [check.code for check in run.checks] == ["MY001"]
    assert run.left_out == ("MY002",)
    assert any("MY002" in notice and "--fast" in notice for notice in run.notices)
    assert run.exit_code is ExitCode.VERIFIED
    assert run.guarantees[-1].standing is Standing.NOT_ASKED
    whole = ran(spec, asked, dear, fast=False)
    assert len(whole.checks) == 2 and not whole.left_out
    assert whole.guarantees[-1].standing is Standing.SHOWN


def test_what_has_not_ended_in_time_is_left_out(spec: Spec) -> None:
    asked = [rule("MY001"), rule("MY002", waits), rule("MY003")]
    with Verification(spec, seconds=3.0) as verification:
        list(verification.build())
        events = list(verification.ask(asked))
    assert [one.result.code for one in events if isinstance(one, CheckFinished)] == ["MY001"]
    (left,) = [one for one in events if isinstance(one, ChecksLeftOut)]
    assert left.codes == ("MY002", "MY003")
    assert "3 s" in left.because


def test_what_is_known_when_time_is_over_is_told(spec: Spec) -> None:
    """A check that another one asked has its row."""

    def asks(evidence: Any) -> Judgement:
        evidence.finds("MY003")
        return waits(evidence)

    asked = [rule("MY001", asks), rule("MY002"), rule("MY003")]
    with Verification(spec, seconds=3.0) as verification:
        list(verification.build())
        events = list(verification.ask(asked))
    (told,) = [one.result for one in events if isinstance(one, CheckFinished)]
    assert (told.code, told.outcome) == ("MY003", Outcome.PASSED)
    (left,) = [one for one in events if isinstance(one, ChecksLeftOut)]
    assert left.codes == ("MY001", "MY002")


def test_what_stands_in_for_another_check_is_asked_with_it() -> None:
    """A check that could not look is answered by one that the same run asks."""
    covers = {code: by for one in GUARANTEES for code, by in one.covered.items()}
    assert not {code for code, by in covers.items() if code not in DEAR and DEAR.issuperset(by)}


def test_from_python(spec: Spec) -> None:
    run = rnncheck.verify(spec.path, fast=True, select=["WR101", "PR", "LS704"])
    assert [check.code for check in run.checks] == ["WR101", "PR903"]
    assert run.left_out == ("LS704", "PR901", "PR902")
