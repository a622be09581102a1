"""Targets that value what is observed next themselves, by calls that cannot be seen: at every step,
or behind a row's last one alone, where all others take recorded values. Whether they start from the
state that was left there shows when that is changed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.estimator_calls import batches, made_by
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample, run_loss
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.checks.value.estimates import ended, per_step
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.subject import next_key

_TRIED = 3  # steps of the rows beside the first whose states are changed
Made = Callable[[TensorDictBase], Tensor]


def last_values_from_states(evidence: Evidence) -> int:
    """How many next values are computed from the state behind their step: what is made moves with
    what is observed there and with every state that was left there; of the rows' last steps alone,
    where no other next observation moves it. Asked of the user's own estimates, else of the loss; 0
    where that is not so."""
    try:
        own = made_by(evidence) and evidence.pipeline.estimator is not None
        samples = batches(evidence) if own else [one for _, one in each_sample(evidence)]
        of = _estimates if own else _loss
        return sum(_rows(evidence, sample, of(evidence, sample)) for sample in samples)
    except Unanswered:
        return 0


def _estimates(evidence: Evidence, sample: Sample) -> Made:
    names = [dotted(key) for key in made_by(evidence)]

    def made(td: TensorDictBase) -> Tensor:
        found = per_step(evidence, sample, td)
        return torch.cat([found[name].flatten().double() for name in names if name in found])

    return made


def _loss(evidence: Evidence, sample: Sample) -> Made:
    return lambda td: run_loss(evidence, sample, td, per_element=False).total


def _rows(evidence: Evidence, sample: Sample, made: Made) -> int:
    last = torch.zeros_like(sample.valid)
    last[:, -1] = True
    seen = [key for key in observed(evidence, sample) if key[0] == "next"]
    states = [next_key(key) for key in evidence.policy.carry]
    here = last & ~ended(sample, "done") & sample.valid
    if not states or not seen or not set(states) <= set(tensor_keys(sample.rows)):
        return 0

    def moves(at: Tensor, keys: list[Key]) -> bool:
        return not torch.equal(made(sample.td), made(changed_batch(sample, at, keys)))

    inside = ~last & ~ended(sample, "done") & sample.valid
    found = 0
    if moves(~last & sample.valid, seen):
        if not all(moves(at, [key]) for at in _columns(inside) for key in states):
            return 0
        found = int(inside.sum())
    asked = [seen, *([key] for key in states)]
    return found + (int(here.sum()) if all(moves(here, keys) for keys in asked) else 0)


def _columns(inside: Tensor) -> list[Tensor]:
    """Single steps of the rows, from the first to the last."""
    steps = inside.any(0).nonzero().flatten().tolist()
    chosen = dict.fromkeys(steps[n * (len(steps) - 1) // _TRIED] for n in range(_TRIED + 1))
    return [inside & (torch.arange(inside.shape[1]) == step) for step in chosen]
