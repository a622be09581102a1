"""The batch's loss is not the mean of its slices' losses.

Checks
    The loss of a training batch with several segments is compared with the mean of the losses of the segments, each
    given alone with its own stored state, weighted by their lengths. Where the memoryless twin differs in the same
    way the loss couples samples by nature and is not blamed.

Why it matters
    A loss over concatenated slices should be what it would be slice by slice. If it is not, something passes between
    them that is no gradient: a normalisation, a weight, a state.

Says nothing when
    the segments leak already (LS701, RP501), the loss draws random numbers, or it needs a fixed number of steps.

Fix
    See LS701; weight slices by their lengths, and normalise over features or over the whole data set.

Example
    loss = (per_step * mask).sum() / mask.sum()
"""

from __future__ import annotations

import itertools

import torch
from tensordict import TensorDictBase

from rnncheck.checks.evidence import Evidence
from rnncheck.checks.isolation import segments_of
from rnncheck.checks.joins import joins
from rnncheck.checks.loss.ls701_loss_crosses_boundary import loss_leaks, policy_leaks
from rnncheck.checks.lossrun import copied, each_sample, loss_of, memoryless, run_loss
from rnncheck.checks.rule import Judgement, Rule, Skip, Vacuous
from rnncheck.checks.training import Sample
from rnncheck.results.model import Finding, Severity, Stage

LIMIT = 1e-4  # relative: sums over other numbers of terms round differently


def run(evidence: Evidence) -> Judgement:
    """Whole batches against their segments."""
    loss_of(evidence)
    if any(bool((j.over_end | j.shuffled | j.stretches).any()) for j in joins(evidence)):
        raise Vacuous("the batch joins steps without a mark (RP501, RP502, RP506)")
    compared = 0
    for number, sample in each_sample(evidence)[:1]:
        if int(segments_of(sample).max()) < 1 or sample.masked:
            continue
        if policy_leaks(evidence, sample) or loss_leaks(evidence, sample)[0]:
            raise Vacuous("the segments leak already (LS701)")
        if not repeatable(evidence, sample):
            raise Vacuous("the loss draws random numbers")
        whole, parts = losses(evidence, sample, sample.td)
        compared += 1
        if off(whole, parts):
            twin = losses(evidence, sample, memoryless(sample, sample.td))
            if not off(*twin):
                return Judgement((_finding(evidence, number, whole, parts),), compared)
    if not compared:
        raise Vacuous("every row of the training batches is a single segment")
    return Judgement((), compared, "the batch's loss is the mean of its slices' losses")


def repeatable(evidence: Evidence, sample: Sample) -> bool:
    """The loss is the same under another seed."""
    loss = copied(loss_of(evidence))
    first = run_loss(evidence, sample, loss=loss, per_element=False).total
    second = run_loss(evidence, sample, loss=copied(loss), per_element=False, seed=1).total
    return bool(torch.equal(first, second))


def losses(evidence: Evidence, sample: Sample, td: TensorDictBase) -> tuple[float, float]:
    """The loss of the batch, and the length-weighted mean of its segments' losses."""
    loss = loss_of(evidence)
    whole = run_loss(evidence, sample, td, loss=copied(loss), per_element=False).total
    rows, segments = td.reshape(sample.rows.shape), segments_of(sample)
    total, count = 0.0, 0
    for row in range(segments.shape[0]):
        changes = (segments[row, 1:] != segments[row, :-1]).nonzero().flatten() + 1
        for begin, end in itertools.pairwise([0, *changes.tolist(), segments.shape[1]]):
            part = rows[row : row + 1, begin:end]
            part = part[0] if td.batch_dims == 1 else part
            value = run_loss(evidence, sample, part, loss=copied(loss), per_element=False).total
            total, count = total + float(value) * (end - begin), count + end - begin
    return float(whole), total / max(1, count)


def off(whole: float, parts: float) -> bool:
    """Whether the two differ by more than rounding."""
    if not (abs(whole) < float("inf") and abs(parts) < float("inf")):
        raise Skip("the loss is not finite (GR802)")
    return abs(whole - parts) > LIMIT * max(abs(whole), abs(parts), 1e-6)


def _finding(evidence: Evidence, number: int, whole: float, parts: float) -> Finding:
    return Finding(
        code="LS704",
        stage=Stage.LOSS,
        message=f"the loss of the batch is {whole:.6g}, the mean of its slices' losses {parts:.6g}",
        quantity="difference of the batch's loss and the mean over its slices",
        measured=abs(whole - parts),
        on=f"training batch {number}",
        bound=LIMIT * max(abs(whole), abs(parts)),
        bound_formula="1e-4 of the loss",
        passing_bound=abs(whole - parts),
        cause="slices are weighted by something else than their length, or share statistics or state",
        fix="average over steps; see LS701 for state that passes between slices",
        source=evidence.pipeline.source(Stage.LOSS),
    )


RULE = Rule(
    code="LS704",
    name="loss-differs-per-slice",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
)
