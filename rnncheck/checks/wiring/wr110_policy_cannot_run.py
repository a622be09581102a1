"""The policy raises on the env's own reset, so that nothing can be collected: with the way out.

Checks
    One sequential step of the policy on the reset of the env that the collector steps.

Why it matters
    Nothing behind it can be judged. The error's last line rarely says which part of the policy it
    is about.

Says nothing when
    the collector acts with it all the same, this processor has no kernel for what it computes, or
    another finding of the wiring names the reason. Such a reason is a state or a start flag that
    the env does not give, or not in the shape that is read.

Fix
    Follow the way out that is named with the finding.

Example
    # one tensor becomes loc and scale
    nn.Sequential(MLP(..., out_features=2 * n), NormalParamExtractor())
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.known_errors import UNKNOWN, raised_at, way_out
from rnncheck.checks.rule import (
    CouldNotLook,
    Deferred,
    Judgement,
    NotApplicable,
    Observation,
    Rule,
    Unanswered,
)
from rnncheck.numerics.kernels import missing_kernel, reason_of
from rnncheck.pipeline.guard.user_frames import describe_trouble
from rnncheck.pipeline.subject.introspect import CannotStep, part_that_raised
from rnncheck.results.model import Severity, Stage

_OWN = "make policy(env.reset()) run on its own first: the part and the line are named here"
_ALREADY = ("WR102", "WR103", "WR104")  # what they name is not said again


def run(evidence: Evidence) -> Judgement:
    """Whether a step of the policy raises, and nothing else says why."""
    error = _raised(evidence)
    if error is None:
        return Judgement((), 1, "the policy runs one step on the env's reset")
    if evidence.pipeline.batches:
        raise NotApplicable("the collector acts with it all the same")
    if missing := missing_kernel(str(error)):
        raise CouldNotLook(missing)
    if any(map(evidence.finds, _ALREADY)):
        raise Deferred("another finding of the wiring names the reason", "WR102", "WR103", "WR104")
    return Judgement((_observed(evidence, error),), 1)


def _raised(evidence: Evidence) -> Exception | None:
    try:
        _ = evidence.policy
    except Unanswered as skip:
        if isinstance(skip.__cause__, CannotStep):
            return skip.__cause__.error
        raise
    return None


def _observed(evidence: Evidence, error: Exception) -> Observation:
    pipeline = evidence.pipeline
    cause, fix = way_out(str(error))
    if (cause, fix) == UNKNOWN:
        cause, fix = "the policy's own code does not take what the env's reset gives", _OWN
    part = part_that_raised(error)
    return Observation(
        message=f"the policy raises on the env's reset: {reason_of(error)}",
        quantity="steps that raise",
        measured=1.0,
        on="one step from the env's reset",
        cause=cause,
        fix=fix,
        source=raised_at(pipeline, Stage.POLICY, describe_trouble(error).place),
        details={"part": part} if part else {},
    )


RULE = Rule(
    code="WR110",
    name="policy-cannot-run",
    holds="the policy runs on the env's reset",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.ENV, Stage.POLICY),
)
