"""One env or row of a batch changes another.

Checks
    The inputs of one row are changed, in recurrent mode and (for batched envs) in sequential mode;
    the other rows' outputs must be the same to the last bit. A single env is tried with two rows,
    as a [B, T] replay batch has.

Why it matters
    Rows are different episodes. Batch normalisation in train mode, a state reshaped where it should
    be transposed, a recurrence over the batch dimension all make one env's memory depend on its
    neighbours.

Says nothing when
    there is one row only and the module takes no second one, or no change changes anything.

Fix
    Keep every operation inside its row: normalise over features, transpose the state's dimensions
    instead of reshaping them, recur over time.

Example
    # [rows, layers, hidden] -> [layers, rows, hidden], not state.view(...)
    h = state.transpose(0, 1).contiguous()
"""

from __future__ import annotations

import torch

from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.experiment import Experiment, recurrent_experiment
from rnncheck.checks.evidence.observations import change_observed
from rnncheck.checks.evidence.recurrent_pass import recurrent_outputs
from rnncheck.checks.rule import (
    CouldNotLook,
    Judgement,
    NotApplicable,
    Observation,
    Rule,
    Unanswered,
)
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.passes import RunSettings, unroll_subject
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.results.model import Severity, Stage

_CAUSE = (
    "an operation mixes the rows: batch statistics, a reshaped state, recurrence over the batch"
    " dimension"
)
_FIX = "keep every operation inside its row"


def run(evidence: Evidence) -> Judgement:
    """Perturb one row, in both modes."""
    findings: list[Observation] = []
    compared, untold = 0, list[Unanswered]()
    for subject in evidence.subjects:
        made = constructed(evidence, subject, max(2, constructed(evidence, subject).rows))
        for mode in ("recurrent", "sequential"):
            try:
                finding = _judge(evidence, subject, made, mode)
            except Unanswered as why:
                alone = mode == "recurrent" and _takes_one_row_alone(evidence, subject)
                untold.append(NotApplicable(f"one row is all it takes: {why}") if alone else why)
                continue
            compared += made.rows - 1
            findings += [finding] if finding else []
    note = "the other rows stayed the same to the bit"
    return Judgement(tuple(findings[:1]), compared, note, unanswered=tuple(untold))


def _judge(
    evidence: Evidence, subject: Subject, made: Constructed, mode: str
) -> Observation | None:
    """The finding of one subject in one mode."""
    experiment = experiment_of(evidence, subject, made, mode)
    mask = torch.zeros_like(made.starts)
    mask[0] = True
    after = experiment.perturb(mask)
    leaks = experiment.leaks(after, mask, ~mask)
    if leaks:
        return change_observed(
            subject,
            made,
            leaks[0],
            message=f"{mode} mode: a change in row 0 changes other rows",
            cause=_CAUSE,
            fix=_FIX,
        )
    if not experiment.changed(after, mask):
        raise CouldNotLook(f"no change of the inputs changes the {subject.stage}'s outputs")
    return None


def _takes_one_row_alone(evidence: Evidence, subject: Subject) -> bool:
    """Whether the module of a single env runs on one row, but not on two."""
    if subject.rank:
        return False
    try:
        recurrent_outputs(evidence, subject, constructed(evidence, subject))
    except Unanswered:
        return False
    return True


def experiment_of(evidence: Evidence, subject: Subject, made: Constructed, mode: str) -> Experiment:
    """The batch with several rows, run in one mode."""
    if mode == "recurrent":
        return recurrent_experiment(evidence, subject, made)
    if subject.rank == 0:
        raise NotApplicable("the env is a single one: acting has one row")
    return Experiment(
        evidence,
        subject,
        made,
        lambda inputs, dtype: unroll_subject(
            subject, inputs, made.starts, settings=RunSettings(dtype=dtype)
        ),
    )


RULE = Rule(
    code="BD305",
    name="rows-mix",
    holds="no row reaches another",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
