"""The loss raises on the training batch: with the way out.

Checks
    The loss is called on the batch that the pipeline makes for it.

Why it matters
    Some configurations of recurrent modules and losses cannot run together: the pad backend under
    vmap, the scan backend with dropout, a batch without the keys that the loss reads.

Says nothing when
    the spec has no loss. A loss that cannot be copied, or does what cannot be undone, is not
    called: that could not be looked at.

Fix
    Follow the way out that is named with the finding.

Example
    {use: SACLoss, deactivate_vmap: true}     # a recurrent critic cannot run under vmap
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.known_errors import stage_raises
from rnncheck.checks.rule import CouldNotLook, Judgement, Rule
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """What the loss stage said."""
    pipeline = evidence.pipeline
    failure = pipeline.failures.get(Stage.LOSS)
    if failure is None:
        if pipeline.loss is None:
            raise evidence.absent(Stage.LOSS)
        if pipeline.uncalled:
            raise CouldNotLook(pipeline.uncalled)
        return Judgement((), 1, "the loss runs")
    return Judgement((stage_raises(pipeline, Stage.LOSS, failure),), 1)


RULE = Rule(
    code="LS706",
    name="loss-cannot-run",
    holds="the loss runs on a training batch",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.LOSS,),
)
