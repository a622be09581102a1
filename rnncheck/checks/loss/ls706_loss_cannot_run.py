"""The loss raises on the training batch: with the way out.

Checks
    The loss is called on the batch that the pipeline makes for it.

Why it matters
    Some configurations of recurrent modules and losses cannot run together: the pad backend under vmap, the scan
    backend with dropout, a batch without the keys that the loss reads.

Says nothing when
    the spec has no loss.

Fix
    Follow the way out that is named with the finding.

Example
    LSTMModule(..., recurrent_backend="scan")
"""

from __future__ import annotations

from rnncheck.checks.evidence import Evidence
from rnncheck.checks.rule import Judgement, Rule, Vacuous
from rnncheck.checks.ways_out import way_out
from rnncheck.results.model import Finding, Severity, Source, Stage


def run(evidence: Evidence) -> Judgement:
    """What the loss stage said."""
    pipeline = evidence.pipeline
    failure = pipeline.failures.get(Stage.LOSS)
    if failure is None:
        if pipeline.loss is None:
            raise Vacuous("the loss was not built")
        return Judgement((), 1, "the loss runs")
    cause, fix = way_out(failure.message)
    place = failure.place
    source = pipeline.source(Stage.LOSS)
    if place is not None:
        source = Source(place.path, place.line, place.column, "python", "loss")
    finding = Finding(
        code="LS706",
        stage=Stage.LOSS,
        message=f"the loss raises: {failure.message[:300]}",
        quantity="calls of the loss that raise",
        measured=1.0,
        bound=0.0,
        bound_formula="none",
        passing_bound=1.0,
        cause=cause,
        fix=fix,
        source=source,
    )
    return Judgement((finding,), 1)


RULE = Rule(
    code="LS706",
    name="loss-cannot-run",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.LOSS,),
)
