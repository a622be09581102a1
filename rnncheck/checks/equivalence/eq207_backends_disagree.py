"""Outputs or end states of a backend (pad, scan, triton, auto, compiled) are not those of the
equations.

Checks
    Every LSTMModule and GRUModule of policy and critic runs, with its own weights, on the backends
    that `--backends` or `verify.backends` name (`all`, or variants like pad, scan-recompute,
    triton, pad-python, scan-compiled), or without them on pad and the backend it was built with.
    Resets lie at step 0, nowhere, at every step, anywhere and at the last step; the stored states
    are not zero; there is one row, one step, non-contiguous input and recorded input; another
    thread, canonicalize() and a conversion there and back are tried, and vmap where it is allowed.
    Named backends are run on other sizes as well. A float64 unroll of the equations is the judge,
    so the finding says which backend is wrong, from which step on, whether a reset lies there and,
    where it can be told, what the backend did instead.

Why it matters
    The backend is chosen for speed and may be another one in training than in acting, on a laptop
    than on a GPU. One that drops a reset or goes on from the wrong state trains another policy
    without a word.

Says nothing when
    there is no LSTMModule or GRUModule, another check names the fault and no backend was named, or
    a backend cannot run here; the note says which and why. Without CUDA the Triton kernels run
    under Triton's interpreter in a process of their own, on small shapes: that shows their logic,
    not their rounding. A module of more than 128 hidden units is then replaced by a small one of
    its kind. A subclass of LSTMModule or GRUModule that computes something else on pad is judged by
    its own pad pass. Compiled variants are part of `all` under --thorough alone. What a worker
    process cannot answer in time is left out with the reason.

Fix
    Use a backend that agrees until the one named here is mended; pad is the slowest and plainest
    one.

Example
    LSTMModule(..., recurrent_backend="pad")
"""

from __future__ import annotations

from rnncheck.checks.equivalence.backend_findings import already_said, refuses, summary, trial_words
from rnncheck.checks.equivalence.backend_judge import Divergence, by_variant, explain, values_wrong
from rnncheck.checks.equivalence.backend_trials import Tried, tried_backends
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule
from rnncheck.numerics.tolerance import FORMULA
from rnncheck.pipeline.backends.trial import Refused
from rnncheck.results.model import Severity, Stage, Where

_ALREADY = ("EQ201", "EQ202", "EQ203", "BD301")  # what they name is not said again


def run(evidence: Evidence) -> Judgement:
    """Every variant of every recurrent module."""
    made = tried_backends(evidence)
    findings: list[Observation] = []
    right: list[str] = []
    compared = 0
    for label, members in by_variant(made.tried):
        wrong = [(one, found) for one in members if (found := values_wrong(one)) is not None]
        raised = [one for one in members if refuses(one)]
        compared += sum(not isinstance(one.answer, Refused) for one in members)
        if wrong:
            findings.append(_observed(*wrong[0], len(wrong), len(members)))
        elif raised:
            findings.append(_raises(raised[0]))
        else:
            right.append(label)
    note = summary(made)
    if evidence.pipeline.spec.verify.backends:  # who names backends is told which of them ran
        evidence.remarks.append(f"backends: {note}")
    if findings and not evidence.pipeline.spec.verify.backends:
        already_said(evidence, _ALREADY)
    if not compared and not findings:
        raise CouldNotLook(note)
    agreeing = ", ".join(dict.fromkeys(right)) or "none"
    return Judgement(tuple(_with(findings, agreeing)), compared, note)


def _observed(one: Tried, found: Divergence, wrong: int, cases: int) -> Observation:
    did = explain(one)
    place = found.place()
    return Observation(
        stage=one.target.stage,
        message=(
            f"{one.variant.label}: {found.quantity} of {one.target.name} is not what the equations"
            f" give {place}"
        ),
        key=found.quantity,
        quantity=f"max abs error of {found.quantity} at its first divergent step, against float64",
        measured=found.measured,
        on=trial_words(one) + f"; wrong in {wrong} of {cases} cases",
        bound=found.bound,
        bound_formula=FORMULA,
        where=Where((found.row or 0,), found.step, found.feature, None, found.step),
        cause=did
        or ("the backend handles the reset at this step wrongly" if found.at_reset else ""),
        fix="run another backend until this one is mended",
    )


def _raises(one: Tried) -> Observation:
    return Observation(
        stage=one.target.stage,
        message=f"{one.variant.label} raises on {one.target.name}: {one.answer}",
        on=trial_words(one),
        fix="run another backend",
    )


def _with(findings: list[Observation], agreeing: str) -> list[Observation]:
    for finding in findings:
        finding.details["backends that agree with float64"] = agreeing
    return findings


RULE = Rule(
    code="EQ207",
    name="backends-disagree",
    holds="every backend gives the equations' outputs",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
    dear=True,
)
