"""Padded steps without a mask, or a mask that the loss ignores.

Checks
    Steps of a training batch that were never collected (zeros that a collate function filled in)
    must be covered by a mask. Where there is a mask, everything that is float is changed at the
    masked steps: the loss must stay the same.

Why it matters
    Padding is data that nobody collected: zero observations with zero rewards, often most of the
    batch.

Says nothing when
    no step is padded, or the spec has no loss to ask.

Fix
    Multiply per-step losses by ``batch["collector", "mask"]`` and divide by its sum, or sample
    ragged slices.

Example
    loss = (per_step * mask).sum() / mask.sum()
"""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    changed_batch,
    copied,
    each_sample,
    float_inputs,
    loss_of,
    run_loss,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.keys import STEP_KEY, Key, dotted
from rnncheck.results.model import Severity, Stage, Where


def run(evidence: Evidence) -> Judgement:
    """Unmasked padding, then the loss at masked steps."""
    compared = 0
    for number, sample in each_sample(evidence):
        invented = padding(sample)
        if bool(invented.any()):
            return Judgement((_unmasked(number, invented),), int(sample.valid.sum()))
        if sample.mask is None:
            continue
        loss = loss_of(evidence)
        keys = float_inputs(sample.rows, root=True, following=True)
        base = run_loss(evidence, sample, loss=copied(loss), per_element=False).total
        other = changed_batch(sample, ~sample.valid, keys)
        after = run_loss(evidence, sample, other, loss=copied(loss), per_element=False).total
        compared += int((~sample.valid).sum())
        size = abs(float(base.detach()) - float(after.detach()))
        if size > 1e-6 * max(abs(float(base.detach())), 1e-6):
            return Judgement((_ignored(number, sample.mask, size),), compared)
    if not compared:
        raise NotApplicable("no step of the training batches is padding")
    return Judgement((), compared, f"{compared} padded steps are left out of the loss")


def padding(sample: Sample) -> Tensor:
    """Steps that count as data and were never collected, at the ends of rows: ``[rows, steps]``."""
    tag = sample.rows.get(STEP_KEY, None)
    if tag is None or tag.numel() != sample.valid.numel():
        return torch.zeros_like(sample.valid)
    invented = (sample.ids < 0) & sample.valid
    repeated = torch.zeros_like(invented)
    repeated[:, 1:] = (sample.ids[:, 1:] == sample.ids[:, :-1]) & (sample.ids[:, 1:] >= 0)
    to_the_end = (
        repeated.flip(1).long().cumprod(1).flip(1).bool()
    )  # a step drawn twice is no padding
    return invented | (to_the_end & sample.valid)


def _unmasked(number: int, invented: Tensor) -> Observation:
    row, step = invented.nonzero()[0].tolist()
    count = int(invented.sum())
    return Observation(
        message=f"{count} steps of a training batch were never collected, and no mask says so",
        quantity="padded steps taken for data",
        measured=float(count),
        on=f"training batch {number}",
        where=Where((number, row), step, first_step=step),
        cause="short slices were filled up with zeros or copies of their last step",
        fix=(
            'write a mask ("collector", "mask") and use it in the loss, or keep slices ragged with'
            " is_init"
        ),
    )


def _ignored(number: int, mask: Key, size: float) -> Observation:
    return Observation(
        stage=Stage.LOSS,
        message="the loss changes with what stands at steps that the mask calls padding",
        key=dotted(mask),
        quantity="change of the loss when padded steps change",
        measured=size,
        on=f"training batch {number}",
        bound_formula="none, up to 1e-6 of the loss",
        cause="the loss averages over all steps without looking at the mask",
        fix=f"weigh per-step losses with the mask ({dotted(mask)}), or sample ragged slices",
    )


RULE = Rule(
    code="RP505",
    name="padding-taken-for-data",
    severity=Severity.ERROR,
    stage=Stage.REPLAY,
    run=run,
    needs=(Stage.POLICY, Stage.REPLAY),
)
