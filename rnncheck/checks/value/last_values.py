"""Targets that take recorded values for all steps but a row's last, and value what is observed
behind that one themselves: from the state that was left there, or not."""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample, run_loss
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.checks.value.estimates import ended
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.subject import next_key


def last_values_from_states(evidence: Evidence) -> int:
    """How many rows' last values are computed from the state behind the row: the loss moves with
    what is observed there and with every state that was left there, and with no other next
    observation. 0 where that is not so."""
    try:
        return sum(_rows(evidence, sample) for _, sample in each_sample(evidence))
    except Unanswered:
        return 0


def _rows(evidence: Evidence, sample: Sample) -> int:
    last = torch.zeros_like(sample.valid)
    last[:, -1] = True
    seen = [key for key in observed(evidence, sample) if key[0] == "next"]
    states = [next_key(key) for key in evidence.policy.carry]
    here = last & ~ended(sample, "done") & sample.valid
    if not states or not seen or not set(states) <= set(tensor_keys(sample.rows)):
        return 0
    if _moves(evidence, sample, ~last & sample.valid, seen):
        return 0
    asked = [seen, *([key] for key in states)]
    return int(here.sum()) if all(_moves(evidence, sample, here, keys) for keys in asked) else 0


def _moves(evidence: Evidence, sample: Sample, at: Tensor, keys: list[Key]) -> bool:
    """Whether the loss is another one with other values of ``keys`` there."""
    one, two = (
        run_loss(evidence, sample, td, per_element=False).total
        for td in (sample.td, changed_batch(sample, at, keys))
    )
    return not torch.equal(one, two)
