"""Running rules one by one: each ends in a result, whatever happens inside it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext

import torch

from rnncheck.checks.engine.haste import TimeBox
from rnncheck.checks.engine.several import Conclusion, evidence_for, said_of, together
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.moved_statistics import unless_counted
from rnncheck.checks.rule import (
    CouldNotLook,
    Deferred,
    Judgement,
    NotApplicable,
    Observation,
    Rule,
    Unanswered,
    weightiest,
)
from rnncheck.errors import Lacking, Place, StageError, StageTimeout, UntoldError, first_line
from rnncheck.numerics.kernels import missing_kernel
from rnncheck.pipeline.copying.copies import CannotCopy
from rnncheck.pipeline.guard.calling import exits_taken
from rnncheck.pipeline.guard.timeout import time_limit
from rnncheck.pipeline.guard.user_frames import describe_trouble, display_path
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.placing import precision_as_set
from rnncheck.results.events import CheckFinished, CheckStarted, Event
from rnncheck.results.model import CheckResult, Finding, Outcome, Source, Stage
from rnncheck.supervisor.copies import end_if_copied
from rnncheck.supervisor.interrupts import pass_on

_WRITTEN_OVER = "modified by an inplace operation"  # in what autograd raises
WRITTEN_OVER = (
    "the loss writes over what it was computed with, such as weights that one update changes in"
    " place and the next one reads, so that its gradient cannot be asked for afterwards"
)


class Inquiry:
    """The questions to one pipeline; what a check concluded is remembered, for another may defer
    to it."""

    def __init__(
        self,
        pipeline: Pipeline,
        rules: Iterable[Rule],
        *,
        thorough: bool = False,
        clock: TimeBox | None = None,
    ) -> None:
        """``rules`` are all that may be asked about, by a run or by another rule. What has not
        ended when the ``clock`` is over is left out."""
        self._rules = {rule.code: rule for rule in rules}
        self._results: dict[str, CheckResult] = {}
        self._asking: list[str] = []  # the rule under way, behind those that wait for it
        self._listed: set[str] = set()
        self._clock = clock or TimeBox()
        self._cut: set[str] = set()  # what was under way when the clock was over
        self.evidence = Evidence(pipeline, self.finds, thorough=thorough)

    def ask(self, rules: Iterable[Rule]) -> Iterator[Event]:
        """Events of these rules in order; one that crashes is an error outcome and the next one
        runs."""
        asked, late = tuple(rules), list[str]()
        self.expect(asked)
        self._clock.start()
        for rule in asked:
            if self._clock.over and rule.code not in self._results:
                late.append(rule.code)
                continue
            yield CheckStarted(rule.code, rule.name, rule.stage)
            result = self.result(rule.code)
            if rule.code in self._cut:
                late.append(rule.code)
            else:
                yield CheckFinished(result)
        yield from self._clock.too_late(late)

    def expect(self, rules: Iterable[Rule]) -> None:
        """These rules belong to the run, though they may be asked later."""
        known = {rule.code: rule for rule in rules}
        self._rules |= known
        self._listed |= set(known)

    def result(self, code: str) -> CheckResult:
        """What the check with this code concluded, asked now where it was not asked before."""
        if code not in self._results:
            self._asking.append(code)
            try:
                self._results[code] = self._run(self._rules[code])
            finally:
                self._asking.pop()
        return self._results[code]

    def finds(self, code: str) -> bool:
        """Whether the check with this code finds something; not asked of one that waits for the
        answer. Raises CouldNotLook where it raised and no row of the run says so."""
        if code in self._asking:
            return False
        found = self.result(code)
        if found.outcome is Outcome.ERROR and code not in self._listed:
            raise CouldNotLook(f"{code}, which it asks: {found.reason}")
        return found.outcome is Outcome.FAILED

    def _run(self, rule: Rule) -> CheckResult:
        begin = time.perf_counter()
        exits_taken()  # those of others
        asked = evidence_for(rule, self.evidence)
        ended = together(rule, [(one.pipeline.of_loss, self._of(rule, one)) for one in asked])
        end_if_copied()
        if exits := exits_taken():
            ended = {"outcome": Outcome.ERROR, "reason": f"the pipeline raised: {exits[0]}"}
        pass_on()  # Ctrl-C, whatever the check made of it
        seconds = time.perf_counter() - begin
        severity = ended.pop("severity", rule.severity)
        return CheckResult(rule.code, rule.name, severity, rule.stage, seconds=seconds, **ended)

    def _of(self, rule: Rule, evidence: Evidence) -> Conclusion:
        """What the rule concludes of one evidence: of one loss, where there are several."""
        rounded, evidence.rounded = evidence.rounded, 0.0
        try:
            return self._ended(rule, evidence)
        except Unanswered as why:
            return self._unanswered(why)
        finally:
            evidence.rounded = rounded

    def _ended(self, rule: Rule, evidence: Evidence) -> Conclusion:
        """Outcome and all that goes with it, as fields of a CheckResult."""
        try:
            judgement = self._judged(rule, evidence)
        except Lacking as error:
            raise CouldNotLook(error.reason) from error
        except StageTimeout as error:
            if self._clock.over:
                self._cut.add(rule.code)
            raise CouldNotLook(_said(error.message, error.place, error.frames)) from error
        except StageError as error:
            said = _said(error.message, error.place, error.frames)
            return {"outcome": Outcome.ERROR, "reason": said}
        except CannotCopy as error:
            raise CouldNotLook(str(error)) from error
        except Unanswered:
            raise
        except BaseException as error:
            if isinstance(error, RuntimeError) and _WRITTEN_OVER in str(error):
                raise CouldNotLook(WRITTEN_OVER) from error
            if isinstance(error, UntoldError):
                raise CouldNotLook(str(error)) from error
            return {"outcome": Outcome.ERROR, "reason": _raised(rule, error)}
        return self._concluded(rule, judgement, evidence)

    def _judged(self, rule: Rule, evidence: Evidence) -> Judgement:
        pipeline = evidence.pipeline
        for stage in rule.needs:
            if not _present(stage, pipeline):
                raise evidence.absent(stage)
        limit = self._clock.within(pipeline.spec.verify.timeout)
        precision = precision_as_set() if rule.as_set else nullcontext()
        limited = time_limit(rule.stage, limit)
        with torch.enable_grad(), precision, limited:  # a user may leave it off
            judgement = rule.run(evidence)
        if rule.replays and judgement.findings:
            judgement = unless_counted(judgement, evidence)
        return _valid(rule, judgement)

    def _concluded(self, rule: Rule, judgement: Judgement, evidence: Evidence) -> Conclusion:
        """A check that compared nothing never passes, nor one that could not look at a part."""
        findings = tuple(finding(rule, one, evidence.pipeline) for one in judgement.findings)
        why, outcome = weightiest(judgement.unanswered), Outcome.PASSED
        if findings:
            outcome = Outcome.FAILED
        elif why is not None and (isinstance(why, CouldNotLook) or not judgement.compared):
            raise why
        elif not judgement.compared:
            raise CouldNotLook(judgement.note or "there was nothing to compare")
        note, rounded = judgement.note, evidence.rounded
        if rounded and outcome is Outcome.PASSED:
            note += f"; rounding alone, up to {rounded:.1g}"
        return {
            "outcome": outcome,
            "reason": note,
            "severity": judgement.severity or rule.severity,
            "findings": findings,
            "compared": judgement.compared,
        }

    def _unanswered(self, why: Unanswered) -> Conclusion:
        if isinstance(why, NotApplicable):
            return {"outcome": Outcome.NOT_APPLICABLE, "reason": str(why)}
        if not isinstance(why, Deferred):
            return {"outcome": Outcome.NOT_LOOKED, "reason": str(why)}
        failed = tuple(
            code
            for code in why.codes
            if code not in self._asking and self.result(code).outcome is Outcome.FAILED
        )
        if told := tuple(code for code in failed if code in self._listed):
            said = f"{why} ({', '.join(told)})"
            return {"outcome": Outcome.DEFERRED, "reason": said, "deferred_to": told}
        unasked = f" ({', '.join(failed)} fails, which was not asked)" if failed else ""
        return {"outcome": Outcome.NOT_LOOKED, "reason": f"{why}{unasked}"}


def unasked_rules(rules: Iterable[Rule], reason: str) -> Iterator[Event]:
    """Events of rules that cannot be asked at all."""
    for rule in rules:
        yield CheckStarted(rule.code, rule.name, rule.stage)
        yield CheckFinished(
            CheckResult(rule.code, rule.name, rule.severity, rule.stage, Outcome.NOT_LOOKED, reason)
        )


def _raised(rule: Rule, error: BaseException) -> str:
    """Whose exception it is: the user's pipeline raised where their frames are on the stack.

    A check of the user's is no pipeline. A kernel that this processor lacks is nobody's fault: the
    check could not look.
    """
    trouble = describe_trouble(error)
    if missing := missing_kernel(trouble.message):
        raise CouldNotLook(_said(missing, trouble.place, trouble.frames)) from error
    if trouble.place is None:
        return f"the check itself crashed: {first_line(error)}"
    if trouble.place.path == display_path(inspect.getfile(rule.run)):
        return _said(f"the check itself crashed: {trouble.message}", trouble.place, "")
    said = f"the pipeline raised {trouble.message}"
    return _said(said, trouble.place, trouble.frames)


def _said(message: str, place: Place | None, frames: str) -> str:
    where = f" ({place})" if place is not None else ""
    return "\n".join(part for part in (f"{message}{where}", frames) if part)


def _valid(rule: Rule, judgement: object) -> Judgement:
    """``judgement``, if it is one: a check of the user's may return anything."""
    if not isinstance(judgement, Judgement):
        raise TypeError(f"{rule.run.__name__} returned {judgement!r}, no Judgement")
    for seen in judgement.findings:
        if not isinstance(seen, Observation):
            raise TypeError(f"{rule.run.__name__} found {seen!r}, no Observation")
    return judgement


def finding(rule: Rule, seen: Observation, pipeline: Pipeline) -> Finding:
    """What a rule saw, with what follows from the rule and from what was measured."""
    stage = seen.stage or rule.stage
    measured = seen.measured is not None
    passing = seen.measured if seen.passing_bound is None else seen.passing_bound
    return Finding(
        code=rule.code,
        stage=stage,
        message=said_of(pipeline.of_loss, seen.message),
        key=seen.key,
        quantity=seen.quantity,
        measured=seen.measured,
        on=seen.on,
        bound=seen.bound if measured else None,
        bound_formula=seen.bound_formula if measured else "",
        passing_bound=passing,
        where=seen.where,
        cause=seen.cause,
        fix=seen.fix,
        source=_source(seen.source or stage, pipeline, seen.key),
        details=seen.details | ({"loss": pipeline.of_loss} if pipeline.of_loss else {}),
    )


def _source(at: Source | Stage, pipeline: Pipeline, key: str) -> Source:
    """The user's line; of the replay the one that makes the training batches what they are."""
    if isinstance(at, Source):
        return at
    return pipeline.training_source(key) if at is Stage.REPLAY else pipeline.source(at)


def _present(stage: Stage, pipeline: Pipeline) -> bool:
    spec = pipeline.spec
    if stage in pipeline.lacking:
        return False
    if stage is Stage.COLLECT:
        return spec.collect is not None or bool(pipeline.batches)
    if stage is Stage.REPLAY:
        return spec.replay is not None or spec.batch is not None
    if stage in (Stage.ADVANTAGE, Stage.LOSS):
        return getattr(spec, str(stage)) is not None
    return stage in (Stage.ENV, Stage.POLICY) or getattr(pipeline, str(stage)) is not None
