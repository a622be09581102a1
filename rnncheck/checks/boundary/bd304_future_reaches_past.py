"""A later step changes an earlier output.

Checks
    In recurrent mode all inputs from a step on are changed, for steps in the middle of the longest
    segments; every output before that step must be the same to the last bit.

Why it matters
    A policy that sees the future in training cannot act: a bidirectional layer, attention without a
    causal mask, a normalisation over time, a pass in reversed time all train well and fail in the
    env.

Says nothing when
    the module has no recurrent mode, all segments have one step, or no change changes anything.

Fix
    Make the recurrent pass causal: no ``bidirectional=True``, a causal mask, statistics that do not
    mix steps.

Example
    LSTMModule(..., bidirectional=False)
"""

from __future__ import annotations

import itertools

import torch

from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.experiment import recurrent_experiment
from rnncheck.checks.evidence.observations import change_observed
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage

MOST_CUTS = 4
_CAUSE = (
    "the recurrent pass reads later steps: bidirectional, non-causal attention, or statistics over"
    " time"
)
_FIX = "make the recurrent pass causal"


def run(evidence: Evidence) -> Judgement:
    """Perturb everything from a cut on, for cuts in the middle of the longest segments."""
    findings: list[Observation] = []
    compared = 0
    for subject in evidence.subjects:
        made = constructed(evidence, subject)
        finding, watched = _judge(evidence, subject, made)
        compared += watched
        findings += [finding] if finding else []
    return Judgement(
        tuple(findings), compared, f"{counted(compared, 'earlier step')} stayed the same"
    )


def _judge(
    evidence: Evidence, subject: Subject, made: Constructed
) -> tuple[Observation | None, int]:
    """The finding of one subject, and how many steps were watched."""
    cuts = middles(made)
    if not cuts:
        raise NotApplicable("every episode of the env has a single step")
    experiment = recurrent_experiment(evidence, subject, made)
    alive, watched = False, 0
    for cut in cuts:
        mask = torch.zeros_like(made.starts)
        mask[:, cut:] = True
        after = experiment.perturb(mask)
        alive = alive or bool(experiment.changed(after, mask))
        watched += int((~mask).sum())
        leaks = experiment.leaks(after, mask, ~mask)
        if leaks:
            return (
                change_observed(
                    subject,
                    made,
                    leaks[0],
                    message=(
                        f"recurrent mode: a change from step {cut} on changes an earlier output"
                    ),
                    cause=_CAUSE,
                    fix=_FIX,
                ),
                watched,
            )
    if not alive:
        raise CouldNotLook(f"no change of the inputs changes the {subject.stage}'s outputs")
    return None, watched


def middles(made: Constructed) -> list[int]:
    """The middles of the longest segments of the first row."""
    begins = [*made.starts[0].nonzero().flatten().tolist(), made.steps]
    spans = sorted(itertools.pairwise(begins), key=lambda s: s[0] - s[1])
    return [(begin + end + 1) // 2 for begin, end in spans[:MOST_CUTS] if end - begin > 1]


RULE = Rule(
    code="BD304",
    name="future-reaches-past",
    holds="no later step reaches an earlier one",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
