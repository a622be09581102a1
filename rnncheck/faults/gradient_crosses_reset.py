"""Values stay apart at a reset, gradients do not.

A straight-through mask: the forward pass is right and the backward pass is not.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.faults.fault import Fault, in_recurrent_mode
from rnncheck.pipeline.plant.module_changes import Call, called_with, inputs_of
from rnncheck.results.model import Stage


def leaking(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    values = {key: _with_past(td.get(key), td.ndim - 1) for key in inputs_of(module, td)}
    return called_with(module, call, td, values)


def _with_past(value: Tensor, time: int) -> Tensor:
    past = value.cumsum(time)
    return value + (past - past.detach())  # exactly zero, with a gradient


FAULT = Fault(
    name="gradient-crosses-reset",
    stage=Stage.POLICY,
    expects=("BD303",),
    plant=in_recurrent_mode(leaking),
)
