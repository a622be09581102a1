"""Recurrent mode's outputs differ from the sequential unroll.

Checks
    Episode heads are laid end to end and run in recurrent mode, once from a trajectory's start and once from the
    middle of one (with the true state stored). Every output is held against the isolated replay: the same steps,
    each trajectory alone, step by step, in float64.

Why it matters
    The policy acts step by step and is trained on sequences. If the two compute different things, the loss is that
    of another policy.

Says nothing when
    the module has no recurrent mode, or recurrent mode raises. Outputs that draw random numbers are left out.

Fix
    Make one function of the cell and call it in both modes; in recurrent mode start from the state stored at the
    first step and at every reset.

Example
    for t in range(x.shape[-2]): h = self.step(x[..., t, :], torch.where(init[..., t, :], stored[..., t, :], h))
"""

from __future__ import annotations

from rnncheck.checks.evidence.compare import Mismatch, mismatch_finding, mismatches
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Judgement, Rule, Vacuous
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.results.model import Finding, Severity, Stage

MOST_SKIPPED = 3  # steps cut off the front to begin in the middle of a trajectory


def run(evidence: Evidence) -> Judgement:
    """Policy and critic, from the start and from the middle."""
    findings: list[Finding] = []
    compared = 0
    for subject in evidence.subjects:
        evidence.needs_recurrence(subject)
        for made, begins in variants(evidence, subject):
            found, keys = disagreement(evidence, subject, made)
            compared += keys * made.starts.numel()
            if found:
                findings.append(_finding(evidence, subject, made, found, begins))
                break
    return Judgement(tuple(findings), compared, f"{compared} output steps agree with the replay")


def variants(evidence: Evidence, subject: Subject) -> list[tuple[Constructed, str]]:
    """The constructed batch as it is, and without its first steps."""
    made = evidence.constructed(subject)
    found = [(made, "from a trajectory's start")]
    skip = min(first_lengths(made)) - 1
    if skip > 0:
        cut = evidence.once(("middle", subject.stage), lambda: made.window(min(skip, MOST_SKIPPED)))
        found.append((cut, "from the middle of a trajectory"))
    return found


def first_lengths(made: Constructed) -> list[int]:
    """How long the first segment of every row is."""
    rows = (made.starts[row].nonzero().flatten().tolist() for row in range(made.rows))
    return [[*begins, made.steps][1] for begins in rows]


def disagreement(
    evidence: Evidence, subject: Subject, made: Constructed
) -> tuple[Mismatch | None, int]:
    """The worst mismatch of one constructed batch and how many outputs were compared."""
    out = evidence.recurrent(subject, made)
    keys = evidence.outputs(subject, out)
    numbers = [k for k in keys if not bool(made.truth.get(k, out.get(k)).isnan().any())]
    if keys and not numbers:
        raise Vacuous(f"the {subject.stage}'s outputs are NaN in sequential mode already")
    found = mismatches(out, made.truth, made.oracle, numbers)
    return (found[0] if found else None), len(numbers)


def _finding(
    evidence: Evidence, subject: Subject, made: Constructed, found: Mismatch, begins: str
) -> Finding:
    at_start = bool(made.starts[found.difference.row, found.difference.first_step])
    return mismatch_finding(
        "EQ201", evidence, subject, made, found,
        message=f"recurrent mode, {begins}: outputs are not those of the step-by-step run",
        cause="the recurrent pass resets, starts or steps differently from the sequential one"
        + (" (the first divergent step is a reset)" if at_start else ""),
        fix="use the same cell in both modes; start from the stored state, reset where is_init is true",
    )  # fmt: skip


RULE = Rule(
    code="EQ201",
    name="modes-disagree",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
