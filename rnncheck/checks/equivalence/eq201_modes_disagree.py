"""Recurrent mode's outputs differ from the sequential unroll.

Checks
    Episode heads are laid end to end and run in recurrent mode, once from a trajectory's start and
    once from the middle of one (with the true state stored). Every output is held against the
    isolated replay: the same steps, each trajectory alone, step by step, in float64.

Why it matters
    The policy acts step by step and is trained on sequences. If the two compute different things,
    the loss is that of another policy.

Says nothing when
    the module has no recurrent mode, or recurrent mode raises. Outputs that draw random numbers are
    left out. A module whose sequences hold no state is asked from the start alone.

Fix
    Make one function of the cell and call it in both modes; in recurrent mode start from the state
    stored at the first step and at every reset.

Example
    for t in range(x.shape[-2]):
        h = torch.where(init[..., t, :], stored[..., t, :], h)
        h = self.step(x[..., t, :], h)
"""

from __future__ import annotations

from rnncheck.checks.equivalence.mode_comparison import beginnings, disagreement, diverges_at_starts
from rnncheck.checks.evidence.comparison import Mismatch
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.observations import mismatch_observed
from rnncheck.checks.evidence.recurrent_pass import needs_recurrence
from rnncheck.checks.rule import Judgement, Observation, Rule
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """Policy and critic, from the start and from the middle."""
    findings: list[Observation] = []
    compared = 0
    for subject in evidence.subjects:
        needs_recurrence(evidence, subject)
        for made, begins in beginnings(evidence, subject):
            found, keys = disagreement(evidence, subject, made)
            compared += keys * made.starts.numel()
            if found:
                findings.append(_observed(subject, made, found, begins))
                break
    if not findings:
        evidence.needs_critic()
    return Judgement(
        tuple(findings), compared, counted(compared, "output step", "agree with the replay")
    )


def _observed(subject: Subject, made: Constructed, found: Mismatch, begins: str) -> Observation:
    at_start = diverges_at_starts(found.difference, made.starts)
    return mismatch_observed(
        subject,
        made,
        found,
        message=f"recurrent mode, {begins}: outputs are not those of the step-by-step run",
        cause="the recurrent pass resets, starts or steps differently from the sequential one"
        + (" (the first divergent step is a reset)" if at_start else ""),
        fix=(
            "use the same cell in both modes; start from the stored state, reset where is_init is"
            " true"
        ),
    )


RULE = Rule(
    code="EQ201",
    name="modes-disagree",
    holds="recurrent mode gives the outputs of the unroll",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
