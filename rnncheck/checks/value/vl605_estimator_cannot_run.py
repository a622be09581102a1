"""The estimator raises: with the way out.

Checks
    The estimator is run on the batches of the pipeline, in the mode that the spec asks for.

Why it matters
    The pad backend splits by ``is_init``, which vmap cannot do: GAE with its defaults raises on a recurrent critic.

Says nothing when
    the spec has no estimator.

Fix
    Follow the way out that is named with the finding: ``shifted=True``, ``deactivate_vmap=True`` or the scan backend.

Example
    {use: GAE, gamma: 0.99, lmbda: 0.95, shifted: true}
"""

from __future__ import annotations

from rnncheck.checks.evidence import Evidence
from rnncheck.checks.rule import Judgement, Rule, Vacuous
from rnncheck.checks.ways_out import way_out
from rnncheck.results.model import Finding, Severity, Source, Stage


def run(evidence: Evidence) -> Judgement:
    """What the advantage stage said."""
    pipeline = evidence.pipeline
    failure = pipeline.failures.get(Stage.ADVANTAGE)
    if failure is None:
        if pipeline.estimator is None:
            raise Vacuous("the estimator was not built")
        return Judgement((), 1, "the estimator runs")
    cause, fix = way_out(failure.message)
    source, place = pipeline.source(Stage.ADVANTAGE), failure.place
    if place is not None:
        source = Source(place.path, place.line, place.column, "python", "advantage")
    finding = Finding(
        code="VL605",
        stage=Stage.ADVANTAGE,
        message=f"the estimator raises: {failure.message[:300]}",
        quantity="runs of the estimator that raise",
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
    code="VL605",
    name="estimator-cannot-run",
    severity=Severity.ERROR,
    stage=Stage.ADVANTAGE,
    run=run,
    needs=(Stage.ADVANTAGE,),
)
