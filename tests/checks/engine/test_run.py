"""Every rule ends in a result, whatever happens inside it; run on a real pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rnncheck.checks.engine.run import run_rule, run_rules
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Judgement, Observation, Rule, Skip, Vacuous
from rnncheck.errors import StageError, StageLacking
from rnncheck.pipeline.assembly.builder import Builder
from rnncheck.results.events import CheckFinished, CheckStarted
from rnncheck.results.model import Outcome, Severity, Stage
from rnncheck.spec.load import load_spec

SPEC = Path(__file__).parents[3] / "fixtures" / "broken" / "wr101_no_recurrent_state.yaml"


@pytest.fixture(scope="module")
def evidence() -> Iterator[Evidence]:
    """A feed-forward pipeline that collects nothing and has no critic."""
    spec = load_spec(SPEC, ["collect=null"])
    with Builder(spec) as builder:
        for stage in builder.stages:
            builder.run(stage)
        assert builder.pipeline is not None
        found = Evidence(builder.pipeline)
        yield found
        found.close()


def rule(run: Callable[[Any], Judgement], *needs: Stage) -> Rule:
    return Rule("XX001", "made-up", Severity.ERROR, Stage.POLICY, run, needs)


def raising(error: Exception) -> Callable[[Any], Judgement]:
    def run(_: Any) -> Judgement:
        raise error

    return run


SEEN = Observation("it is wrong")


@pytest.mark.parametrize(
    ("run", "outcome", "reason"),
    [
        (lambda _: Judgement((), 3, "3 things agree"), Outcome.PASSED, "3 things agree"),
        (lambda _: Judgement((SEEN,), 3), Outcome.FAILED, ""),
        (lambda _: Judgement((SEEN,), 0), Outcome.FAILED, ""),
        (lambda _: Judgement((), 0), Outcome.VACUOUS, "nothing to compare"),
        (raising(Skip("no device")), Outcome.SKIPPED, "no device"),
        (raising(Vacuous("one segment only")), Outcome.VACUOUS, "one segment only"),
        (raising(StageError("env", "the motor broke")), Outcome.ERROR, "the motor broke"),
        (raising(StageLacking("loss", "no kernel")), Outcome.SKIPPED, "no kernel"),
        (raising(KeyError("h")), Outcome.ERROR, "KeyError: h"),
        (raising(AssertionError()), Outcome.ERROR, "AssertionError"),
    ],
)
def test_how_a_rule_ends(
    evidence: Evidence, run: Callable[[Any], Judgement], outcome: Outcome, reason: str
) -> None:
    result = run_rule(rule(run), evidence)
    assert result.outcome is outcome
    assert reason in result.reason
    assert bool(result.findings) is (outcome is Outcome.FAILED)


@pytest.mark.parametrize("stage", [Stage.COLLECT, Stage.CRITIC])
def test_a_rule_is_not_asked_without_its_stage(evidence: Evidence, stage: Stage) -> None:
    result = run_rule(rule(raising(RuntimeError("asked")), Stage.POLICY, stage), evidence)
    assert result.outcome is Outcome.SKIPPED
    assert str(stage) in result.reason


def test_a_rule_that_takes_too_long_is_ended(
    evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = load_spec(SPEC, ["collect=null", "verify.timeout=1"])
    monkeypatch.setattr(evidence.pipeline, "spec", limited)  # the pipeline was built without haste

    def wait(_: Any) -> Judgement:
        while True:
            time.sleep(0.01)

    result = run_rule(rule(wait), evidence)
    assert result.outcome is Outcome.ERROR
    assert "did not finish within 1 s" in result.reason


def test_ctrl_c_is_not_taken_for_a_fault(evidence: Evidence) -> None:
    def interrupt(_: Any) -> Judgement:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_rule(rule(interrupt), evidence)


def test_a_rule_that_crashes_does_not_stop_the_next(evidence: Evidence) -> None:
    good = rule(lambda _: Judgement((), 1, "fine"))
    events = list(run_rules([rule(raising(ZeroDivisionError())), good], evidence))
    assert [type(event) for event in events] == 2 * [CheckStarted, CheckFinished]
    ended = [event.result.outcome for event in events if isinstance(event, CheckFinished)]
    assert ended == [Outcome.ERROR, Outcome.PASSED]


def test_evidence_is_measured_once_and_so_is_its_absence(evidence: Evidence) -> None:
    calls: list[int] = []

    def measure() -> int:
        calls.append(1)
        return len(calls)

    def fail() -> int:
        calls.append(1)
        raise Skip("no data")

    assert [evidence.once("a number", measure) for _ in range(3)] == [1, 1, 1]
    for _ in range(2):
        with pytest.raises(Skip, match="no data"):
            evidence.once("a failure", fail)
    assert len(calls) == 2
