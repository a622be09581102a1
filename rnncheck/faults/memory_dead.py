"""Recurrent mode starts anew at every step.

Start flags that are true everywhere, or steps folded into the batch dimension.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, in_recurrent_mode
from rnncheck.pipeline.plant.module_changes import Call, called_with, carry_of, flags_of
from rnncheck.results.model import Stage


def _forgetful(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    raised = {key: torch.ones_like(td.get(key)) for key in flags_of(module, td)}
    empty = {key: torch.zeros_like(td.get(key)) for key in carry_of(module)}
    return called_with(module, call, td, {**raised, **empty})


FAULT = Fault(
    name="memory-dead",
    stage=Stage.POLICY,
    expects=("BD306", "EQ201", "CL406"),
    plant=in_recurrent_mode(_forgetful),
)
