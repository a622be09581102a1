"""Gradients of a backend are not those of the equations.

Checks
    On the runs of EQ207, with recomputation none and full where it was asked for, a random mix of
    outputs and end states is differentiated with respect to every weight, the inputs and the stored
    states. Each gradient is held against that of a float64 unroll of the equations. A wrong one is
    named with the gates or the steps concerned.

Why it matters
    scan and triton bring a backward pass of their own. When its values are right and a gate's
    gradient is not, the loss still falls, more slowly and to another policy.

Says nothing when
    there is no LSTMModule or GRUModule, the backend's values are wrong already (EQ207), or it
    cannot run here.

Fix
    Train on a backend that agrees; the wrong one may still act.

Example
    LSTMModule(..., recurrent_backend="scan", recurrent_recompute="full")
"""

from __future__ import annotations

from rnncheck.checks.equivalence.backend_findings import already_said, summary, trial_words
from rnncheck.checks.equivalence.backend_judge import (
    Divergence,
    by_variant,
    gradients_wrong,
    values_wrong,
)
from rnncheck.checks.equivalence.backend_trials import Tried, tried_backends
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import CouldNotLook, Deferred, Judgement, Observation, Rule
from rnncheck.pipeline.backends.trial import Refused
from rnncheck.results.model import Severity, Stage, Where

GRADIENT_FORMULA = "10 x the error of an honest computation in this dtype + 64 eps x scale"

_ALREADY = ("EQ205", "BD303")  # what they name is not said again


def run(evidence: Evidence) -> Judgement:
    """Every variant whose values are right."""
    made = tried_backends(evidence)
    findings: list[Observation] = []
    compared, differing, right = 0, 0, list[str]()
    for label, members in by_variant(made.tried):
        answered = [one for one in members if not isinstance(one.answer, Refused)]
        if any(values_wrong(one) is not None for one in answered):
            differing += 1
            continue
        wrong = [(one, found) for one in answered if (found := gradients_wrong(one)) is not None]
        compared += len(answered)
        findings += [_observed(*wrong[0], len(wrong), len(answered))] if wrong else []
        right += [] if wrong else [label]
    if findings and not evidence.pipeline.spec.verify.backends:
        already_said(evidence, _ALREADY)
    if not compared:
        _nothing(differing, summary(made))
    for finding in findings:
        finding.details["backends that agree with float64"] = ", ".join(right) or "none"
    return Judgement(tuple(findings), compared, summary(made))


def _nothing(differing: int, note: str) -> None:
    if differing:
        raise Deferred("the values differ already", "EQ207")
    raise CouldNotLook(note)


def _observed(one: Tried, found: Divergence, wrong: int, cases: int) -> Observation:
    label, place = one.variant.label, found.place()
    return Observation(
        stage=one.target.stage,
        message=(
            f"{label}: the gradient of {found.quantity} of {one.target.name} "
            f"is wrong {place}".rstrip()
        ),
        key=found.quantity,
        quantity=f"max abs error of the gradient of {found.quantity}, against float64",
        measured=found.measured,
        on=trial_words(one) + f"; wrong in {wrong} of {cases} cases",
        bound=found.bound,
        bound_formula=GRADIENT_FORMULA,
        where=None if found.step is None else Where((found.row or 0,), found.step),
        cause="the backward pass of this backend is not the derivative of its forward pass",
        fix="train on a backend that agrees with float64",
    )


RULE = Rule(
    code="EQ208",
    name="backend-gradients-disagree",
    holds="every backend gives the equations' gradients",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
    dear=True,
)
