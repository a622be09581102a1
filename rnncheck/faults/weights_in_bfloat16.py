"""The recurrent module multiplies with weights that were rounded to bfloat16.

A cast left behind in a cell that is float32 to everyone who looks at it.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, carriers_of, in_both_modes
from rnncheck.pipeline.plant.hooks import CannotPlant, Parts
from rnncheck.pipeline.plant.module_changes import Call
from rnncheck.results.model import Stage


def _rounded(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    kept = {name: value.detach().clone() for name, value in module.named_parameters()}
    for value in module.parameters():
        value.data = value.data.to(torch.bfloat16).to(value.dtype)
    out = call(td)
    for name, value in module.named_parameters():
        value.data = kept[name]
    return out


def wide(parts: Parts) -> None:
    dtypes = {value.dtype for one in carriers_of(parts) for value in one.module.parameters()}
    if not dtypes:
        raise CannotPlant("the recurrent module has no weights")
    if dtypes & {torch.bfloat16, torch.float16}:
        raise CannotPlant("the recurrent module's weights are narrow already")


FAULT = Fault(
    name="weights-in-bfloat16",
    stage=Stage.POLICY,
    expects=("PR901",),
    plant=in_both_modes(_rounded, wide),
)
