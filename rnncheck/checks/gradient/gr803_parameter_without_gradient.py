"""A recurrent parameter gets none through the loss.

Checks
    The gradient of the loss at the parameters of every recurrent module that the loss trains. None
    of them may be missing or exactly zero over all training batches.

Why it matters
    Recurrent weights without a gradient stay as they were initialised; everything else learns
    around them.

Says nothing when
    no module carries state (WR101), what carries it has no parameters (a stack of frames, a
    reservoir), they are frozen (``requires_grad`` is false), the loss holds no module, all
    gradients vanish, or every episode has one step.

Fix
    Give the loss the module that acts, and do not detach its output.

Example
    loss = ClipPPOLoss(policy, critic)     # the same objects that the collector runs
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.idle_weights import acts_idly
from rnncheck.checks.evidence.loss_calls import each_sample, loss_of
from rnncheck.checks.evidence.trained_memory import (
    FIXED,
    ends_with,
    has_fixed_memory,
    memory_gradients,
    needs_memory,
    trained_elsewhere,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.copying.holdings import trained_parameters
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """Largest gradient of every recurrent parameter over all training batches."""
    loss_of(evidence)
    needs_memory(evidence)
    found = memory_gradients(evidence)
    largest = found.recurrent
    if not largest and has_fixed_memory(*evidence.subjects):
        raise NotApplicable(FIXED)
    if not largest:
        raise CouldNotLook("the loss trains no recurrent parameter of its own")
    silent = [name for name, size in largest.items() if size == 0.0]
    silent = [name for name in silent if not trained_elsewhere(evidence, name)]
    silent = [name for name in silent if not _is_idle(evidence, name)]
    if silent and not any(_goes_on(sample) for _, sample in each_sample(evidence)):
        raise CouldNotLook(
            "every step of the training batches begins an episode: there is no memory yet"
        )
    if len(silent) == len(largest) and found.rest == 0.0:
        raise CouldNotLook("the loss has no gradient at all")
    learning = [one for one in silent if _learns(evidence, one)]
    if learning and learning == silent:
        raise CouldNotLook(
            f"the script's own backward gives `{learning[0]}` a gradient, and what is judged of its"
            " loss does not: it reads numbers of that which networks made ahead of it"
        )
    silent = [one for one in silent if one not in learning]
    findings = (_observed(silent, len(largest)),) if silent else ()
    return Judgement(
        findings, len(largest), counted(len(largest), "recurrent parameter", "get a gradient")
    )


def _is_idle(evidence: Evidence, name: str) -> bool:
    """A head that acting does not run, of a model of what follows: it is no part of the memory."""
    weight = trained_parameters(evidence.pipeline.loss).get(name)
    return weight is not None and acts_idly(evidence, name, weight)


def _learns(evidence: Evidence, name: str) -> bool:
    """Whether a script was seen to give it a gradient."""
    return any(ends_with(name, one) for one in evidence.pipeline.learning)


def _goes_on(sample: Sample) -> bool:
    """Some step is not the first of its episode, so that a state reaches the weights that read
    it."""
    return bool((sample.valid & ~sample.trajectory_start()).any())


def _observed(silent: list[str], of: int) -> Observation:
    return Observation(
        message=(
            f"{len(silent)} of {of} recurrent parameters get no gradient: {', '.join(silent[:4])}"
        ),
        key=silent[0],
        quantity="recurrent parameters without a gradient",
        measured=float(len(silent)),
        cause=(
            "the loss holds another copy of the module, detaches its output, or resets the state at"
            " every step"
        ),
        fix="give the loss the module that acts; do not detach features; mark only real starts",
    )


RULE = Rule(
    code="GR803",
    name="parameter-without-gradient",
    holds="every recurrent parameter gets a gradient",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
)
