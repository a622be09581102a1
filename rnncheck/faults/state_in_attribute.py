"""The state lives in an attribute of the module, not in the tensordict.

`self.hidden = ...`: what is stored and replayed has nothing to do with what was acted on.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, while_acting
from rnncheck.pipeline.plant.module_changes import Call, called_with, carry_of, lowered_flags
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage


def remembered(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    held = module.__dict__.get("held_state", {})
    own = {key: value for key, value in held.items() if value.shape == td.get(key).shape}
    out = called_with(module, call, td, {**lowered_flags(module, td), **own})
    module.__dict__["held_state"] = {k: out.get(next_key(k)).detach() for k in carry_of(module)}
    return out


FAULT = Fault(
    name="state-in-attribute",
    stage=Stage.POLICY,
    expects=("EQ206", "BD302", "CL401", "CL406"),
    plant=while_acting(remembered),
)
