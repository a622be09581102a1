"""Recurrent mode runs along the batch instead of along time.

`batch_first` forgotten or set twice.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, over_rows
from rnncheck.pipeline.plant.module_changes import Call, carry_of, outputs_of
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage


def _swapped(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    if td.ndim < 2:
        return call(td)
    out = call(td.transpose(0, td.ndim - 1).contiguous())
    for key in outputs_of(module):
        td.set(key, out.get(key).transpose(0, td.ndim - 1))
    for key in map(next_key, carry_of(module)):
        td.set(key, out.get(key).transpose(0, td.ndim - 1))
    return td


FAULT = Fault(
    name="time-and-batch-swapped",
    stage=Stage.POLICY,
    expects=("BD305", "BD306", "EQ201", "RP507"),
    plant=over_rows(_swapped),
)
