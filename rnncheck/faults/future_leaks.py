"""Recurrent mode sees the next step.

A bidirectional layer, or a convolution over time without causal padding.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.faults.fault import Fault, in_recurrent_mode
from rnncheck.pipeline.plant.module_changes import Call, called_with, inputs_of
from rnncheck.results.model import Stage

LEAKED = 0.3  # share of the next step: chosen, any other than 0 reaches back in time


def ahead(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    values = {key: _mixed(td.get(key), td.ndim - 1) for key in inputs_of(module, td)}
    return called_with(module, call, td, values)


def _mixed(value: Tensor, time: int) -> Tensor:
    return (1 - LEAKED) * value + LEAKED * value.roll(-1, time)


FAULT = Fault(
    name="future-leaks",
    stage=Stage.POLICY,
    expects=("BD304", "EQ201"),
    plant=in_recurrent_mode(ahead),
)
