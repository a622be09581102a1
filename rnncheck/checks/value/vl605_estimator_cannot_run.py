"""The estimator raises: with the way out.

Checks
    The estimator is run on the batches of the pipeline, in the mode that the spec asks for.

Why it matters
    The pad backend splits by ``is_init``, which vmap cannot do: GAE with its defaults raises on a
    recurrent critic.

Says nothing when
    the spec has no estimator.

Fix
    Follow the way out that is named with the finding: ``shifted=True`` evaluates T+1 steps in one
    pass, without vmap.

Example
    {use: GAE, gamma: 0.99, lmbda: 0.95, shifted: true}
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.known_errors import stage_raises
from rnncheck.checks.rule import Judgement, Rule
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """What the advantage stage said."""
    pipeline = evidence.pipeline
    failure = pipeline.failures.get(Stage.ADVANTAGE)
    if failure is None:
        if pipeline.estimator is None:
            raise evidence.absent(Stage.ADVANTAGE)
        return Judgement((), 1, "the estimator runs")
    return Judgement((stage_raises(pipeline, Stage.ADVANTAGE, failure),), 1)


RULE = Rule(
    code="VL605",
    name="estimator-cannot-run",
    holds="the estimator runs",
    severity=Severity.ERROR,
    stage=Stage.ADVANTAGE,
    run=run,
    needs=(Stage.ADVANTAGE,),
)
