"""What the recurrent module reads is normalised over the whole batch.

BatchNorm in train mode in front of the RNN: rows and steps see each other.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.faults.fault import Fault, in_both_modes
from rnncheck.pipeline.plant.module_changes import Call, called_with, inputs_of
from rnncheck.results.model import Stage


def normalised(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    values = {key: _centred(td.get(key), td.ndim) for key in inputs_of(module, td)}
    return called_with(module, call, td, values)


def _centred(value: Tensor, batch_dims: int) -> Tensor:
    return value - value.mean(tuple(range(batch_dims)), keepdim=True) if batch_dims else value


FAULT = Fault(
    name="batch-norm-over-rows",
    stage=Stage.POLICY,
    expects=("BD301", "BD304", "BD305", "EQ201"),
    plant=in_both_modes(normalised),
)
