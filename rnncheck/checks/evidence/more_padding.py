"""Longer rows of a batch, by zeros behind its data: what counts no padded step stays the same."""

from __future__ import annotations

from dataclasses import replace

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import copied, loss_of, parameters_of, run_loss
from rnncheck.checks.evidence.loss_isolation import repeatable
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import CouldNotLook, Unanswered
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.keys import tensor_keys

_MORE = 2  # steps of padding that are added
_APART = 8  # steps that keep the ends of the rows away from a window over steps (n-step targets)
_LONGER = 1e-5  # of the loss: rounding of longer sums; padding that counts moves it by its share
_ORDERS = 4  # times the rounding of one other order of the same sums; chosen
_TURNED = 1e-3  # of the gradient, whose direction padding that counts changes by its share; chosen


def padded_by_zeros(sample: Sample) -> bool:
    """Whether what is masked in ``[rows, steps]`` are zeros behind the data of a row."""
    rows, blank = sample.rows, ~sample.valid
    behind = blank.flip(1).long().cumprod(1).flip(1).bool()
    if sample.td.batch_dims != 2 or not bool((behind == blank).all()):
        return False
    keys = [key for key in tensor_keys(rows) if rows.get(key).is_floating_point()]
    return not any(bool(rows.get(key)[blank].any()) for key in keys)


def longer(sample: Sample, count: int) -> tuple[Sample, TensorDictBase]:
    """With ``count`` more steps of padding behind every row."""
    more = torch.cat([sample.rows, torch.zeros_like(sample.rows[:, :count])], 1)
    blank = torch.zeros_like(sample.valid[:, :count])
    return replace(sample, valid=torch.cat([sample.valid, blank], 1)), more


def same_with_more(evidence: Evidence, sample: Sample, base: float, limit: float) -> bool:
    """Whether all padding is zero, and more of it leaves the loss at ``base``: sums over it (a
    return) read it then, and nothing counts it."""
    if not padded_by_zeros(sample):
        return False
    turned = replace(sample, valid=sample.valid.flip(0))
    try:
        run, other = (
            run_loss(evidence, one, td, per_element=False)
            for one, td in (longer(sample, _MORE), (turned, sample.rows.flip(0)))
        )
    except Unanswered:  # a loss of rows of one length
        return False
    rounding = abs(float(other.total.detach()) - base)  # of sums in another order
    allowed = max(limit, _LONGER * abs(base), _ORDERS * rounding)
    return abs(float(run.total.detach()) - base) <= allowed


def turned_by_more(evidence: Evidence, sample: Sample) -> float:
    """How far, as a share of it, the gradient of the loss turns where zeros are added to padding
    that is zeros; 0 for rounding, for what only scales it (a mean over the rows), and where it
    cannot be told. Both batches have padding behind every row, so that no row's last step is
    another one."""
    mask = sample.mask
    if mask is None or mask.inverted or not padded_by_zeros(sample):
        return 0.0
    some = longer(sample, min(_APART, sample.rows.shape[1]))
    more = longer(replace(some[0], rows=some[1]), min(_MORE, sample.rows.shape[1]))
    try:
        base, again = (_gradient(evidence, *some) for _ in range(2))
        other = _gradient(evidence, *more)
    except Unanswered:  # a loss of rows of one length
        return 0.0
    if base is None or again is None or other is None or bool(bits_differ(base, again).any()):
        return 0.0
    along = float(base @ other) / max(float(base @ base), 1e-300)
    turned = float((other - along * base).norm()) / max(float(other.norm()), 1e-300)
    # What a loss draws depends on how many steps there are.
    return turned if turned > _TURNED and repeatable(evidence, sample) else 0.0


def _gradient(evidence: Evidence, sample: Sample, td: TensorDictBase) -> Tensor | None:
    """All of it in one row; None where there is none."""
    loss = copied(loss_of(evidence))
    total = run_loss(evidence, sample, td, loss=loss, per_element=False).total
    weights = [weight for _, weight in parameters_of(loss)]
    if not total.requires_grad or not weights:
        return None
    try:
        grads = torch.autograd.grad(total, weights, allow_unused=True)
    except RuntimeError as error:  # weights that the loss changed in place
        raise CouldNotLook(str(error)) from error
    found = [grad.detach().double().cpu().flatten() for grad in grads if grad is not None]
    return torch.cat(found) if found else None
