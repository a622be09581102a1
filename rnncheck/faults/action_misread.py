"""The env reads one-hot actions and the policy gives an index.

TorchRL takes the largest entry of the one that is there: action 0, whatever the policy chose.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault
from rnncheck.pipeline.plant.action_changes import index_actions, one_hot_actions, one_hot_env
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.module_changes import Call, wrap
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    given = one_hot_actions(parts.env)
    read = index_actions(parts.env)
    if not given and not read:
        raise CannotPlant("no action is one of a few")

    def as_index(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
        out = call(td)
        for key in given:
            if out.get(key, None) is not None:
                out.set(key, out.get(key).long().argmax(-1, keepdim=True))
        return out

    if not given:
        return Hooks(env=lambda env: one_hot_env(env, read))
    return Hooks(policy=lambda policy: wrap(policy, as_index))


FAULT = Fault(
    name="action-misread",
    stage=Stage.ENV,
    expects=("WR111",),
    plant=plant,
)
