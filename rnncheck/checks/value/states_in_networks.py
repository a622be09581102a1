"""The value behind a row's last step, by a network that itself holds the state it goes on from, as
acting left it there: no entry of the batch tells it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    changed_batch,
    copied,
    each_sample,
    loss_of,
    run_loss,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.checks.value.estimates import ended
from rnncheck.checks.value.last_values import has_own_estimates
from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.subject.subject import next_key

_OTHER = 0.5  # what is added to a state to see whether a value starts from it


def last_values_from_held_states(evidence: Evidence) -> int:
    """How many rows have a value behind their last step that moves with what is observed there, and
    with states inside the loss's networks that are those which the last step left."""
    if has_own_estimates(evidence):
        return 0
    try:
        return sum(_rows(evidence, sample) for _, sample in each_sample(evidence))
    except Unanswered:
        return 0


def _rows(evidence: Evidence, sample: Sample) -> int:
    loss = loss_of(evidence)
    here = sample.last & ~ended(sample, "done") & sample.valid
    seen = [key for key in observed(evidence, sample) if key[0] == "next"]
    left = list(_left(evidence, sample))
    if not isinstance(loss, OwnLoss) or not left or not seen or not bool(here.any()):
        return 0
    total = run_loss(evidence, sample, per_element=False).total
    changed = changed_batch(sample, here, seen)
    if torch.equal(total, run_loss(evidence, sample, changed, per_element=False).total):
        return 0
    held = list(loss.states_of_rows(len(sample.valid)))
    known = [all(_is_left(one, left) for one in _tensors(part, name)) for part, name in held]
    used = [_is_used(evidence, sample, n, total) for n, as_left in enumerate(known) if as_left]
    strange = [
        _is_used(evidence, sample, n, total) for n, as_left in enumerate(known) if not as_left
    ]
    return int(here.sum()) if any(used) and not any(strange) else 0


def _left(evidence: Evidence, sample: Sample) -> Iterator[Tensor]:
    """``[rows, numbers]`` of each state behind the rows, as it is and zero where an episode ended
    there."""
    over = ended(sample, "done")[:, -1:]
    keys = set(tensor_keys(sample.rows))
    for key in map(next_key, evidence.policy.carry):
        if key in keys:
            state: Tensor = sample.rows.get(key)[:, -1].flatten(1)
            yield state
            yield torch.where(over.to(state.device), torch.zeros_like(state), state)


def _tensors(part: object, name: str) -> list[Tensor]:
    value = getattr(part, name)
    several = value if isinstance(value, (tuple, list)) else (value,)
    return [one for one in several if isinstance(one, Tensor)]


def _is_left(held: Tensor, left: list[Tensor]) -> bool:
    """A state lies in layers of rows, or in rows."""
    rows = len(left[0])
    laid = [
        held.movedim(dim, 0).flatten(1) for dim in (held.ndim - 2, 0) if held.shape[dim] == rows
    ]
    return any(
        one.shape == other.shape and torch.equal(one.to(other), other)
        for one in laid
        for other in left
    )


def _is_used(evidence: Evidence, sample: Sample, number: int, total: Tensor) -> bool:
    """Whether another such state makes the loss another."""
    other = copied(loss_of(evidence))
    assert isinstance(other, OwnLoss)
    part, name = list(other.states_of_rows(len(sample.valid)))[number]
    for one in _tensors(part, name):
        one.data.add_(_OTHER)
    moved = run_loss(evidence, sample, loss=other, per_element=False).total
    return not torch.equal(total, moved)
