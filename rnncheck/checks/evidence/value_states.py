"""Which states the values of next observations are made of: an actor may have its own."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch
from rnncheck.checks.evidence.module_copies import is_copy
from rnncheck.checks.evidence.module_outputs import ModuleOutputs
from rnncheck.checks.evidence.recurrent_pass import unroll_one
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.subject.subject import next_key


def states_of_values(
    evidence: Evidence,
    sample: Sample,
    made: Callable[[TensorDictBase], object],
    at: Tensor,
    seen: list[Key],
) -> list[Key]:
    """The entries of states behind steps that reach, while acting, a module which what is observed
    next ``at`` these steps moves; all of them where that is not known of any."""
    found = states_known(evidence, sample, made, at, seen)
    return found or list(map(next_key, evidence.policy.carry))


def states_known(
    evidence: Evidence,
    sample: Sample,
    made: Callable[[TensorDictBase], object],
    at: Tensor,
    seen: list[Key],
) -> list[Key]:
    """The same, none where that is not known."""
    carry = list(evidence.policy.carry)
    with ModuleOutputs(layers=True) as base:
        made(sample.td)
    with ModuleOutputs(layers=True) as changed:
        made(changed_batch(sample, at, seen))
    valuing = base.moved(changed)
    step = evidence.pipeline.batches[0].reshape(-1)[:1]
    found = (key for key in carry if valuing and states_reach(evidence, step, key, valuing))
    return list(map(next_key, found))


def states_reach(
    evidence: Evidence, step: TensorDictBase, key: Key, modules: list[nn.Module]
) -> bool:
    """Whether another state there moves what one of the modules, or one like it, gives."""
    value, flags = step.get(key, None), evidence.policy.flags
    if value is None:  # it is begun with none, wherever that was collected
        return False
    moved_by = torch.linspace(0.3, 0.7, value.numel()).view_as(value).to(value)
    other = step.clone().set(key, value + moved_by)
    told = list[ModuleOutputs]()
    for one in (step.clone(), other):
        for flag in flags:
            one.set(flag, torch.zeros_like(one.get(flag)))
        with ModuleOutputs(layers=True) as noted:
            unroll_one(evidence.policy, one)
        told.append(noted)
    moved = told[0].moved(told[1])
    return any(is_copy(one, module) for one in moved for module in modules)
