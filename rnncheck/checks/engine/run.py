"""Running rules one by one: each ends in a result, whatever happens inside it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Iterator

import torch

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Judgement, Observation, Rule, Skip, Vacuous
from rnncheck.errors import Lacking, Place, StageError, first_line
from rnncheck.numerics.kernels import missing_kernel
from rnncheck.pipeline.guard.timeout import time_limit
from rnncheck.pipeline.guard.user_frames import describe_trouble, display_path
from rnncheck.pipeline.model import Pipeline
from rnncheck.results.events import CheckFinished, CheckStarted, Event
from rnncheck.results.model import CheckResult, Finding, Outcome, Source, Stage


def run_rules(rules: Iterable[Rule], evidence: Evidence) -> Iterator[Event]:
    """Events of all rules in order; a rule that crashes is an error outcome and the next one
    runs."""
    for rule in rules:
        yield CheckStarted(rule.code, rule.name, rule.stage)
        yield CheckFinished(run_rule(rule, evidence))


def run_rule(rule: Rule, evidence: Evidence) -> CheckResult:
    """One rule's outcome. A check that compared nothing is vacuous, never passed."""
    begin, evidence.rounded = time.perf_counter(), 0.0
    missing = [stage for stage in rule.needs if not _present(stage, evidence)]
    outcome, reason, findings = Outcome.SKIPPED, "", tuple[Finding, ...]()
    severity = rule.severity
    try:
        if missing:
            lacking = evidence.pipeline.lacking
            raise Skip(lacking.get(missing[0]) or f"the spec has no {missing[0]} stage")
        limit = evidence.pipeline.spec.verify.timeout
        with (
            torch.enable_grad(),
            time_limit(rule.stage, limit),
        ):  # a user's generator may leave it off
            judgement = _judged(rule, evidence)
            outcome, reason = _concluded(judgement)
            findings = tuple(finding(rule, seen, evidence.pipeline) for seen in judgement.findings)
            severity = judgement.severity or severity
    except Skip as skip:
        reason = str(skip)
    except Vacuous as vacuous:
        outcome, reason = Outcome.VACUOUS, str(vacuous)
    except Lacking as error:
        reason = error.reason
    except StageError as error:
        outcome, reason = Outcome.ERROR, _said(error.message, error.place, error.frames)
    except Exception as error:
        outcome, reason = _raised(rule, error)
    if outcome is Outcome.PASSED and evidence.rounded:
        reason += f"; rounding alone, up to {evidence.rounded:.1g}"
    seconds = time.perf_counter() - begin
    return CheckResult(
        rule.code, rule.name, severity, rule.stage, outcome, reason, seconds, findings
    )


def skip_rules(rules: Iterable[Rule], reason: str) -> Iterator[Event]:
    """Events of rules that cannot be asked at all."""
    for rule in rules:
        yield CheckStarted(rule.code, rule.name, rule.stage)
        yield CheckFinished(
            CheckResult(rule.code, rule.name, rule.severity, rule.stage, Outcome.SKIPPED, reason)
        )


def _raised(rule: Rule, error: Exception) -> tuple[Outcome, str]:
    """Whose exception it is: the user's pipeline raised where their frames are on the stack.

    A check of the user's is no pipeline. A kernel that this processor lacks is nobody's fault: the
    check could not look.
    """
    trouble = describe_trouble(error)
    if missing := missing_kernel(trouble.message):
        return Outcome.SKIPPED, _said(missing, trouble.place, trouble.frames)
    if trouble.place is None:
        return Outcome.ERROR, f"the check itself crashed: {first_line(error)}"
    if trouble.place.path == display_path(inspect.getfile(rule.run)):
        return Outcome.ERROR, _said(
            f"the check itself crashed: {trouble.message}", trouble.place, ""
        )
    said = f"the pipeline raised {trouble.message}"
    return Outcome.ERROR, _said(said, trouble.place, trouble.frames)


def _said(message: str, place: Place | None, frames: str) -> str:
    where = f" ({place})" if place is not None else ""
    return "\n".join(part for part in (f"{message}{where}", frames) if part)


def _judged(rule: Rule, evidence: Evidence) -> Judgement:
    judgement: object = rule.run(evidence)
    if not isinstance(judgement, Judgement):  # a check of the user's may return anything
        raise TypeError(f"{rule.run.__name__} returned {judgement!r}, no Judgement")
    for seen in judgement.findings:
        if not isinstance(seen, Observation):
            raise TypeError(f"{rule.run.__name__} found {seen!r}, no Observation")
    return judgement


def _concluded(judgement: Judgement) -> tuple[Outcome, str]:
    if judgement.findings:
        return Outcome.FAILED, judgement.note
    if judgement.compared == 0:
        return Outcome.VACUOUS, judgement.note or "there was nothing to compare"
    return Outcome.PASSED, judgement.note


def finding(rule: Rule, seen: Observation, pipeline: Pipeline) -> Finding:
    """What a rule saw, with what follows from the rule and from what was measured."""
    stage = seen.stage or rule.stage
    measured = seen.measured is not None
    passing = seen.measured if seen.passing_bound is None else seen.passing_bound
    return Finding(
        code=rule.code,
        stage=stage,
        message=seen.message,
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
        source=_source(seen.source or stage, pipeline),
        details=seen.details,
    )


def _source(at: Source | Stage, pipeline: Pipeline) -> Source:
    """The user's line; of the replay the one that makes the training batches."""
    if isinstance(at, Source):
        return at
    return pipeline.training_source() if at is Stage.REPLAY else pipeline.source(at)


def _present(stage: Stage, evidence: Evidence) -> bool:
    if stage in evidence.pipeline.lacking:
        return False
    if stage is Stage.COLLECT:
        return evidence.pipeline.spec.collect is not None or bool(evidence.pipeline.batches)
    if stage is Stage.REPLAY:
        spec = evidence.pipeline.spec
        return spec.replay is not None or spec.batch is not None
    if stage is Stage.ADVANTAGE:
        return evidence.pipeline.spec.advantage is not None
    if stage is Stage.LOSS:
        return evidence.pipeline.spec.loss is not None
    return stage in (Stage.ENV, Stage.POLICY) or getattr(evidence.pipeline, str(stage)) is not None
