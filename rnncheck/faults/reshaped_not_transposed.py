"""Rows and steps are exchanged by a reshape where a transpose was meant.

`x.view(T, B, F)` of a `[B, T, F]` tensor mixes the rows.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.faults.fault import Fault, over_rows
from rnncheck.pipeline.plant.module_changes import Call, called_with, inputs_of
from rnncheck.results.model import Stage


def reshaped(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    if td.ndim < 2:
        return call(td)
    values = {key: _mixed(td.get(key)) for key in inputs_of(module, td)}
    return called_with(module, call, td, values)


def _mixed(value: Tensor) -> Tensor:
    rows, steps, *rest = value.shape
    return value.reshape(steps, rows, *rest).transpose(0, 1)


FAULT = Fault(
    name="reshaped-not-transposed",
    stage=Stage.POLICY,
    expects=("BD305", "EQ201", "EQ204", "RP507"),
    plant=over_rows(reshaped),
)
