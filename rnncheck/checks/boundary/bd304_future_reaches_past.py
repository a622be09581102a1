"""A later step changes an earlier output.

Checks
    In recurrent mode the inputs in the second half of every segment are changed; the outputs in the first halves
    must be the same to the last bit.

Why it matters
    A policy that sees the future in training cannot act: a bidirectional layer, attention without a causal mask, a
    normalisation over time, a pass in reversed time all train well and fail in the env.

Says nothing when
    the module has no recurrent mode, all segments have one step, or no change changes anything.

Fix
    Make the recurrent pass causal: no ``bidirectional=True``, a causal mask, statistics that do not mix steps.

Example
    LSTMModule(..., bidirectional=False)
"""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.compare import change_finding, recurrent_experiment
from rnncheck.checks.evidence import Evidence
from rnncheck.checks.rule import Judgement, Rule, Vacuous
from rnncheck.pipeline.probe import Constructed
from rnncheck.pipeline.subject import Subject
from rnncheck.results.model import Finding, Severity, Stage

CAUSE = "the recurrent pass reads later steps: bidirectional, non-causal attention, or statistics over time"
FIX = "make the recurrent pass causal"


def run(evidence: Evidence) -> Judgement:
    """Perturb the later halves of all segments."""
    findings: list[Finding] = []
    compared = 0
    for subject in evidence.subjects:
        made = evidence.constructed(subject)
        finding = judge(evidence, subject, made)
        compared += int((~later_half(made)).sum())
        findings += [finding] if finding else []
    return Judgement(tuple(findings), compared, f"{compared} earlier steps stayed the same")


def judge(evidence: Evidence, subject: Subject, made: Constructed) -> Finding | None:
    """The finding of one subject."""
    mask = later_half(made)
    if not bool(mask.any()):
        raise Vacuous("every episode of the env has a single step")
    experiment = recurrent_experiment(evidence, subject, made)
    after = experiment.perturb(mask)
    leaks = experiment.changed(after, ~mask)
    if leaks:
        return change_finding(
            "BD304", evidence, subject, made, leaks[0],
            message="recurrent mode: a change at a later step changes an earlier output",
            cause=CAUSE, fix=FIX,
        )  # fmt: skip
    if not experiment.changed(after, mask):
        raise Vacuous(f"no change of the inputs changes the {subject.stage}'s outputs")
    return None


def later_half(made: Constructed) -> Tensor:
    """Steps in the second half of their segment; the first step never is."""
    mask = torch.zeros_like(made.starts)
    for row in range(made.rows):
        begins = [*made.starts[row].nonzero().flatten().tolist(), made.steps]
        for begin, end in zip(begins, begins[1:], strict=False):
            mask[row, begin + max(1, (end - begin) // 2) : end] = True
    return mask


RULE = Rule(
    code="BD304",
    name="future-reaches-past",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
