"""The loss takes the observation of the step itself for the next one.

A target whose next value is that of the same step: `td` handed to the network in the place of
`td["next"]`.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.faults.fault import Fault, around_loss, ends_of, loss_with, needs_training, reading
from rnncheck.pipeline.keys import Key, declared, tensor_keys
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.module_changes import carry_of
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage

ROUNDING = 1e-3  # of a difference of two sums over a batch. Chosen: a target differs by far more


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "loss")
    asked = list[bool]()

    def loss(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        if not asked:
            asked.append(True)
            _must_enter(call, td, _own(td, parts))
        return reading(call, td, _own(td, parts))

    return around_loss(loss)(parts)


def _must_enter(call: Any, td: TensorDictBase, own: dict[Key, Tensor]) -> None:
    """What is observed next must enter a target: something that an end takes it out of."""

    def change(ends: dict[Key, Tensor]) -> Tensor:
        return loss_with(call, td, {**own, **ends}) - loss_with(call, td, ends)

    as_is = change({})
    if not as_is:
        raise CannotPlant("the loss is the same with any next observation")
    ended = change({key: torch.ones_like(flag) for key, flag in ends_of(td).items()})
    if torch.isclose(as_is, ended, rtol=ROUNDING):
        raise CannotPlant("an end takes no next observation out of the loss: it enters no target")


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
