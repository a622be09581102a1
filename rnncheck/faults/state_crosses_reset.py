"""Recurrent mode ignores the start flags inside a sequence.

A whole batch given to the RNN as one sequence.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, in_recurrent_mode
from rnncheck.pipeline.plant.module_changes import Call, called_with, lowered_flags
from rnncheck.results.model import Stage


def _deaf(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    return called_with(module, call, td, lowered_flags(module, td))


FAULT = Fault(
    name="state-crosses-reset",
    stage=Stage.POLICY,
    expects=("BD301", "EQ201"),
    plant=in_recurrent_mode(_deaf),
)
