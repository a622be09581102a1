"""What is said of targets that are not those of the sequential run."""

from __future__ import annotations

from dataclasses import replace

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Observation
from rnncheck.results.model import Stage

CAUSES = {
    Stage.LOSS: (
        "the root pass overwrites the collected ('next', state) before the next pass reads it, or"
        " the next pass starts from another state than the trajectory's own"
    ),
    Stage.ADVANTAGE: (
        "the estimator ran outside of set_recurrent_mode(True), where the critic forgets at every"
        " step, or the critic's state at a segment's start is not the trajectory's own: it was not"
        " collected, or a pass over the same batch has overwritten ('next', state) before"
    ),
}
FIXES = {  # what mends most pipelines first
    Stage.LOSS: (
        "give the loss a network that keeps the collected ('next', state) and puts it back after"
        " its pass (KeepsNext in rnncheck rule VL604); or copy the batch before the root pass; or"
        " leave the first steps out of the loss (burn-in)"
    ),
    Stage.ADVANTAGE: (
        "let the estimator evaluate T+1 steps in one pass (shifted=True) under"
        " set_recurrent_mode(True); before it run the critic on batch.copy() only"
    ),
}
_OWN = (
    "start the pass over the next steps from the states that the steps leave, ('next', state), not"
    " from those ahead of them; or run over T+1 steps in one pass, each with what acting was given"
    " there (flags, actions before); or leave the first steps out of the loss (burn-in)"
)


def of_own_layers(finding: Observation) -> Observation:
    """The finding of layers that an estimator of the user's calls by itself."""
    return replace(
        finding,
        cause="the pass over the next steps starts from other states than the steps leave",
        fix=(
            "start it from the states that the pass over the steps gives, each at its own step; or"
            " run over T+1 steps in one pass"
        ),
    )


def for_own_losses(evidence: Evidence, finding: Observation) -> Observation:
    """The finding with what mends it in a loss of the user's, which may be called as they like."""
    loss = evidence.pipeline.loss
    own = loss is not None and not type(loss).__module__.startswith("torchrl.")
    if finding.stage is Stage.LOSS and own and finding.fix == FIXES[Stage.LOSS]:
        return replace(finding, fix=_OWN)
    return finding
