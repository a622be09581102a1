"""Neither the env nor the policy resets the state while acting: it runs on into the next episode.

A cell that was never told where an episode begins.
"""

from __future__ import annotations

from dataclasses import replace

from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, keeping_state, while_acting
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.pipeline.plant.module_changes import Call, called_with, lowered_flags
from rnncheck.results.model import Stage


def _deaf(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    return called_with(module, call, td, lowered_flags(module, td))


def plant(parts: Parts) -> Hooks:
    hooks = while_acting(_deaf)(parts)
    return replace(hooks, env=keeping_state(parts, lambda carrier: carrier.keys))


FAULT = Fault(
    name="state-survives-acting",
    stage=Stage.POLICY,
    expects=("BD302", "CL403", "BD307"),
    plant=plant,
)
