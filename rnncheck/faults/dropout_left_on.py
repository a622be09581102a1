"""Dropout is active while acting and while replaying.

A policy that was never put into eval mode.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import nn
from torch.nn.functional import dropout

from rnncheck.faults.fault import Fault, in_both_modes
from rnncheck.pipeline.plant.module_changes import Call, called_with, inputs_of
from rnncheck.results.model import Stage

DROPPED = 0.3  # share of the inputs: chosen, as networks use it


def noisy(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    dropped = {key: dropout(td.get(key), DROPPED) for key in inputs_of(module, td)}
    return called_with(module, call, td, dropped)


FAULT = Fault(
    name="dropout-left-on",
    stage=Stage.POLICY,
    expects=("EQ206", "CL406"),
    plant=in_both_modes(noisy),
)
