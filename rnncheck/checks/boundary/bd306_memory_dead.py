"""Inside a segment, an earlier step changes nothing later: there is no recurrence.

Checks
    The first half of every segment is changed, in sequential and in recurrent mode. Some output or
    state in its second half must change, in at least one bit. Tokens take other values that occur,
    then any that the env's spec allows.

Why it matters
    A policy without memory is a feed-forward policy with extra parameters: it runs, and learns what
    can be learnt without memory. A state that is never written, or read and thrown away, looks like
    this.

Says nothing when
    all episodes have a single step, or no input can be changed. A memory that forgets fast passes:
    one bit, one step later, is enough.

Fix
    Read the carry key, feed it to the cell and write the cell's new state to ``("next", key)``; in
    recurrent mode step over the time dimension, the last one of the batch.

Example
    in_keys=["embed", "h", "is_init"], out_keys=["features", ("next", "h")]
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.experiment import Experiment, recurrent_experiment
from rnncheck.checks.evidence.observations import sizes
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


def run(evidence: Evidence) -> Judgement:
    """Change first halves and look at what follows."""
    findings, looked = list[Observation](), dict[str, None]()
    compared, untold = 0, list[Unanswered]()
    for subject in evidence.subjects:
        made = constructed(evidence, subject)
        for mode in ("sequential", "recurrent"):
            try:
                dead = is_dead(evidence, subject, made, mode)
            except Unanswered as why:
                untold.append(why)
                continue
            compared += int(_second_halves(made).sum())
            looked |= {f"{mode} mode": None}
            findings += [_observed(subject, made, mode)] if dead else []
    note = "earlier steps change later ones in " + " and ".join(looked)
    return Judgement(tuple(findings), compared, note, unanswered=tuple(untold))


def is_dead(evidence: Evidence, subject: Subject, made: Constructed, mode: str) -> bool:
    """Whether nothing in the second halves changes."""
    later = _second_halves(made)
    if not bool(later.any()):
        raise NotApplicable("every episode of the env has a single step")
    if mode == "recurrent":
        experiment = recurrent_experiment(evidence, subject, made)
    else:
        experiment = Experiment(
            evidence,
            subject,
            made,
            lambda inputs, dtype: unroll_subject(
                subject, inputs, made.starts, settings=RunSettings(dtype=dtype)
            ),
        )
    for scale in (1.0, 10.0):
        after = experiment.perturb(~later, scale)
        if experiment.changed(after, later):
            return False
    if experiment.tokens() and experiment.changed(experiment.perturb(~later, tokens=True), later):
        return False
    everything = torch.ones_like(made.starts)
    if not experiment.changed(experiment.perturb(everything), everything):
        raise CouldNotLook(f"no change of the inputs changes the {subject.stage}'s outputs")
    return True


def _second_halves(made: Constructed) -> Tensor:
    """Steps in the second half of their segment; the only step of a segment is in its first."""
    mask = torch.zeros_like(made.starts)
    for row in range(made.rows):
        begins = [*made.starts[row].nonzero().flatten().tolist(), made.steps]
        for begin, end in itertools.pairwise(begins):
            mask[row, begin + (end - begin + 1) // 2 : end] = True
    return mask


def _observed(subject: Subject, made: Constructed, mode: str) -> Observation:
    return Observation(
        stage=subject.stage,
        message=f"{mode} mode: the first half of a segment changes nothing in its second half",
        quantity="later steps that change",
        measured=0.0,
        on=sizes(made),
        bound=1.0,
        bound_formula="at least one bit of one later step",
        cause="the state is not fed back: it is not read, not written, or constant",
        fix="feed the carry key to the cell and write its new state to ('next', key)",
    )


RULE = Rule(
    code="BD306",
    name="memory-dead",
    holds="earlier steps change later ones",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
