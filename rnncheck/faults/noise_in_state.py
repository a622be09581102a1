"""Noise enters the state that acting reads, and is not stored.

Exploration by a perturbed memory: what was acted on cannot be replayed from what was recorded.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, while_acting
from rnncheck.pipeline.plant.module_changes import Call, called_with, carry_of
from rnncheck.results.model import Stage

SIZE = 0.1  # of a state that lies in [-1, 1]: chosen, as parameters and actions are perturbed


def _perturbed(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    states = {key: td.get(key) for key in carry_of(module) if td.get(key, None) is not None}
    dense = {key: value for key, value in states.items() if value.is_floating_point()}
    noisy = {key: value + SIZE * torch.randn_like(value) for key, value in dense.items()}
    return called_with(module, call, td, noisy)


FAULT = Fault(
    name="noise-in-state",
    stage=Stage.POLICY,
    expects=("CL406", "EQ206", "CL401"),
    plant=while_acting(_perturbed),
)
