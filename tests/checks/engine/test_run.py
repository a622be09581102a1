"""Every rule ends in a result, whatever happens inside it; run on a real pipeline."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rnncheck.checks.engine.run import Inquiry
from rnncheck.checks.rule import (
    CouldNotLook,
    Deferred,
    Judgement,
    NotApplicable,
    Observation,
    Rule,
    Unanswered,
)
from rnncheck.errors import StageError, StageLacking
from rnncheck.pipeline.assembly.builder import Builder
from rnncheck.pipeline.model import Pipeline
from rnncheck.results.events import CheckFinished, CheckStarted
from rnncheck.results.model import CheckResult, Outcome, Severity, Stage
from rnncheck.spec.load import load_spec
from rnncheck.supervisor.interrupts import noticing

SPEC = Path(__file__).parents[3] / "fixtures" / "broken" / "wr101_no_recurrent_state.yaml"


@pytest.fixture(scope="module")
def pipeline() -> Iterator[Pipeline]:
    """A feed-forward pipeline that collects nothing and has no critic."""
    spec = load_spec(SPEC, ["collect=null"])
    with Builder(spec) as builder:
        for stage in builder.stages:
            builder.run(stage)
        assert builder.pipeline is not None
        yield builder.pipeline


def rule(run: Callable[[Any], Judgement], *needs: Stage, code: str = "XX001") -> Rule:
    return Rule(code, "made-up", Severity.ERROR, Stage.POLICY, run, needs)


def asked(pipeline: Pipeline, *rules: Rule) -> list[CheckResult]:
    """What the rules conclude, in their order."""
    inquiry = Inquiry(pipeline, ())
    events = list(inquiry.ask(rules))
    inquiry.evidence.close()
    return [event.result for event in events if isinstance(event, CheckFinished)]


def raising(error: BaseException) -> Callable[[Any], Judgement]:
    def run(_: Any) -> Judgement:
        raise error

    return run


def half(why: Unanswered) -> Callable[[Any], Judgement]:
    """A rule that looked at a part alone."""
    return lambda _: Judgement((), 3, "3 things agree", unanswered=(why,))


SEEN = Observation("it is wrong")


@pytest.mark.parametrize(
    ("run", "outcome", "reason"),
    [
        (lambda _: Judgement((), 3, "3 things agree"), Outcome.PASSED, "3 things agree"),
        (lambda _: Judgement((SEEN,), 3), Outcome.FAILED, ""),
        (lambda _: Judgement((SEEN,), 0), Outcome.FAILED, ""),
        (lambda _: Judgement((), 0), Outcome.NOT_LOOKED, "nothing to compare"),
        (half(CouldNotLook("one mode raises")), Outcome.NOT_LOOKED, "one mode raises"),
        (half(NotApplicable("one row")), Outcome.PASSED, "3 things agree"),
        (raising(NotApplicable("one segment only")), Outcome.NOT_APPLICABLE, "one segment only"),
        (raising(CouldNotLook("no device")), Outcome.NOT_LOOKED, "no device"),
        (raising(StageError("env", "the motor broke")), Outcome.ERROR, "the motor broke"),
        (raising(StageLacking("loss", "no kernel")), Outcome.NOT_LOOKED, "no kernel"),
        (raising(KeyError("h")), Outcome.ERROR, "KeyError: h"),
        (raising(AssertionError()), Outcome.ERROR, "AssertionError"),
    ],
)
def test_how_a_rule_ends(
    pipeline: Pipeline, run: Callable[[Any], Judgement], outcome: Outcome, reason: str
) -> None:
    (result,) = asked(pipeline, rule(run))
    assert result.outcome is outcome
    assert reason in result.reason
    assert bool(result.findings) is (outcome is Outcome.FAILED)


FAILING = rule(lambda _: Judgement((SEEN,), 1), code="XX002")
PASSING = rule(lambda _: Judgement((), 1, "fine"), code="XX003")


@pytest.mark.parametrize(
    ("codes", "others", "outcome", "told"),
    [
        (["XX002"], [FAILING], Outcome.DEFERRED, ("XX002",)),  # one that is asked later
        (["XX002", "XX003"], [FAILING, PASSING], Outcome.DEFERRED, ("XX002",)),
        (["XX003"], [PASSING], Outcome.NOT_LOOKED, ()),  # nothing fails: nobody has looked
        (["XX001"], [], Outcome.NOT_LOOKED, ()),  # not to itself
    ],
)
def test_a_rule_defers_to_what_fails_alone(
    pipeline: Pipeline, codes: list[str], others: list[Rule], outcome: Outcome, told: tuple[str]
) -> None:
    result, *_ = asked(pipeline, rule(raising(Deferred("it leaks already", *codes))), *others)
    assert (result.outcome, result.deferred_to) == (outcome, told)
    assert "it leaks already" in result.reason


def test_what_fails_but_was_not_asked_is_no_excuse(pipeline: Pipeline) -> None:
    inquiry = Inquiry(pipeline, [FAILING])
    (_, ended) = inquiry.ask([rule(raising(Deferred("it leaks already", "XX002")))])
    assert isinstance(ended, CheckFinished)
    assert ended.result.outcome is Outcome.NOT_LOOKED
    assert ended.result.reason == "it leaks already (XX002 fails, which was not asked)"


@pytest.mark.parametrize("stage", [Stage.COLLECT, Stage.CRITIC])
def test_a_rule_is_not_asked_without_its_stage(pipeline: Pipeline, stage: Stage) -> None:
    (result,) = asked(pipeline, rule(raising(RuntimeError("asked")), Stage.POLICY, stage))
    assert result.outcome is Outcome.NOT_APPLICABLE
    assert str(stage) in result.reason


def test_a_rule_that_takes_too_long_is_ended(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = load_spec(SPEC, ["collect=null", "verify.timeout=1"])
    monkeypatch.setattr(pipeline, "spec", limited)  # the pipeline was built without haste

    def wait(_: Any) -> Judgement:
        while True:
            time.sleep(0.01)

    (result,) = asked(pipeline, rule(wait))
    assert result.outcome is Outcome.NOT_LOOKED
    assert "did not finish within 1 s" in result.reason


def test_ctrl_c_is_not_taken_for_a_fault(pipeline: Pipeline) -> None:
    def interrupt(_: Any) -> Judgement:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt as error:  # as tensordict's context managers do
            raise RuntimeError("bool value of Tensor is ambiguous") from error
        raise AssertionError("no signal came")

    with noticing(), pytest.raises(KeyboardInterrupt):
        asked(pipeline, rule(interrupt))


def test_code_that_raises_keyboard_interrupt_was_not_interrupted(pipeline: Pipeline) -> None:
    with noticing():
        (result,) = asked(pipeline, rule(raising(KeyboardInterrupt())))
    assert result.outcome is Outcome.ERROR
    assert "KeyboardInterrupt" in result.reason


def test_a_rule_that_crashes_does_not_stop_the_next(pipeline: Pipeline) -> None:
    events = list(Inquiry(pipeline, ()).ask([rule(raising(ZeroDivisionError())), PASSING]))
    assert [type(event) for event in events] == 2 * [CheckStarted, CheckFinished]
    ended = [event.result.outcome for event in events if isinstance(event, CheckFinished)]
    assert ended == [Outcome.ERROR, Outcome.PASSED]


def test_evidence_is_measured_once_and_so_is_its_absence(pipeline: Pipeline) -> None:
    evidence = Inquiry(pipeline, ()).evidence
    calls: list[int] = []

    def measure() -> int:
        calls.append(1)
        return len(calls)

    def fail() -> int:
        calls.append(1)
        raise CouldNotLook("no data")

    assert [evidence.once("a number", measure) for _ in range(3)] == [1, 1, 1]
    for _ in range(2):
        with pytest.raises(CouldNotLook, match="no data"):
            evidence.once("a failure", fail)
    assert len(calls) == 2
