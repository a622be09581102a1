"""The state is rounded to bfloat16 from step to step, and not in recurrent mode.

A state stored in a narrower dtype than it is computed in.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, while_acting
from rnncheck.pipeline.plant.module_changes import Call, carry_of
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage


def _rounded(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    out = call(td)
    for key in map(next_key, carry_of(module)):
        value = out.get(key)
        out.set(key, value.to(torch.bfloat16).to(value.dtype))
    return out


FAULT = Fault(
    name="carry-in-bfloat16",
    stage=Stage.POLICY,
    expects=("CL406", "EQ201", "EQ203", "PR903"),
    plant=while_acting(_rounded),
)
