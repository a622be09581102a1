"""Rewards that a loss predicts, as a world model does: out of what it was fed up to a step the
reward that came with what is observed there."""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample, run_loss
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.numerics.difference import gap
from rnncheck.pipeline.keys import Key, tensor_keys

_ROUNDING = 1e-5  # of the largest slope


def predicts(evidence: Evidence, key: Key) -> bool:
    """Whether the slope of the loss at the rewards ``key`` moves with these, as that of an error
    does and no weight's, and never with what is observed behind the step that they weigh, as every
    target's does that looks ahead."""
    told = False
    try:
        for _, sample in each_sample(evidence):
            if key not in tensor_keys(sample.rows) or sample.valid.shape[1] < 2:
                continue
            if not _is_an_error(evidence, sample, key) or _looks_ahead(evidence, sample, key):
                return False
            told = True
    except Unanswered:  # a loss that raises is LS706's
        return False
    return told


def _is_an_error(evidence: Evidence, sample: Sample, key: Key) -> bool:
    other = changed_batch(sample, sample.valid, [key]).get(key)
    here, there = (_slopes(evidence, sample, key, one) for one in (sample.td.get(key), other))
    return bool((_moved(here, there) & sample.valid).any())


def _looks_ahead(evidence: Evidence, sample: Sample, key: Key) -> bool:
    """By what is observed in the second half of each row: a reward of the first half may weigh the
    step behind its own."""
    half = sample.valid.shape[1] // 2
    later = sample.valid.clone()
    later[:, :half] = False
    keys = observed(evidence, sample)
    here = _slopes(evidence, sample, key, sample.td.get(key))
    changed = changed_batch(sample, later, keys)
    there = _slopes(evidence, sample, key, sample.td.get(key), {k: changed.get(k) for k in keys})
    ahead = max(half - 1, 1)
    return bool((_moved(here, there) & sample.valid)[:, :ahead].any())


def _slopes(
    evidence: Evidence,
    sample: Sample,
    key: Key,
    rewards: Tensor,
    more: dict[Key, Tensor] | None = None,
) -> Tensor:
    """``[rows, steps]``: of the whole loss at these rewards; zeros where it has none."""
    leaf = rewards.detach().clone().requires_grad_()
    batch = sample.td.clone().update({**(more or {}), key: leaf})
    total = run_loss(evidence, sample, batch, per_element=False).total
    found = torch.autograd.grad(total, [leaf], allow_unused=True) if total.requires_grad else [None]
    slope = torch.zeros_like(leaf) if found[0] is None else found[0]
    return slope.detach().reshape(*sample.valid.shape, -1).double().sum(-1)


def _moved(here: Tensor, there: Tensor) -> Tensor:
    return gap(here, there) > _ROUNDING * float(here.abs().max())
