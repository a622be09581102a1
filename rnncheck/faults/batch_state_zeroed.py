"""Recurrent mode starts a batch from zeros, whatever was stored.

`rnn(x)` without its initial state: every batch forgets the one before.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, in_recurrent_mode
from rnncheck.pipeline.plant.module_changes import Call, called_with, carry_of
from rnncheck.results.model import Stage


def empty(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    zeros = {key: torch.zeros_like(td.get(key)) for key in carry_of(module)}
    return called_with(module, call, td, zeros)


FAULT = Fault(
    name="batch-state-zeroed",
    stage=Stage.POLICY,
    expects=("CL406", "EQ201", "EQ202"),
    plant=in_recurrent_mode(empty),
)
