"""Recurrent mode's end states are zero.

The end state of all but the longest trajectory is lost (pytorch/rl issue 3711).
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, in_recurrent_mode
from rnncheck.pipeline.plant.module_changes import Call, carry_of
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage


def lost(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    out = call(td)
    for key in map(next_key, carry_of(module)):
        out.set(key, torch.zeros_like(out.get(key)))
    return out


FAULT = Fault(
    name="end-state-wrong",
    stage=Stage.POLICY,
    expects=("EQ202",),
    plant=in_recurrent_mode(lost),
)
