"""The loss takes the observation of the step itself for the next one.

A target whose next value is that of the same step: `td` handed to the network in the place of
`td["next"]`.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.faults.fault import Fault, around_loss, loss_with, needs_training, reading
from rnncheck.pipeline.keys import Key, declared, tensor_keys
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.module_changes import carry_of
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "loss")
    asked = list[bool]()

    def loss(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        if not asked:
            asked.append(True)
            if torch.equal(loss_with(call, td, {}), loss_with(call, td, _own(td, parts))):
                raise CannotPlant("the loss is the same with any next observation")
        return reading(call, td, _own(td, parts))

    return around_loss(loss)(parts)


def _own(td: TensorDictBase, parts: Parts) -> dict[Key, Tensor]:
    """What the policy observes of each step, under ``next``."""
    modules = list(parts.policy.modules())
    states = {key for module in modules for key in carry_of(module)}
    reads = {key for module in modules for key in declared(module, "in_keys")} - states
    given = set(tensor_keys(td))
    found = [key for key in reads & given if next_key(key) in given]
    dense = [key for key in found if td.get(key).dtype is not torch.bool]
    return {next_key(key): td.get(key).clone() for key in dense}


FAULT = Fault(
    name="next-observation-unread",
    stage=Stage.LOSS,
    expects=("VL604",),
    plant=plant,
)
