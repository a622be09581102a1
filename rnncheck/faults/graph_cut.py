"""The graph is cut at each step of recurrent mode.

A loop that detaches the state, or runs under no_grad: nothing is learned over time.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.faults.fault import Fault, in_recurrent_mode
from rnncheck.pipeline.plant.module_changes import Call, State, by_steps, choose
from rnncheck.results.model import Stage


def cut(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    return by_steps(module, call, td, _detached)


def _detached(starts: Tensor, state: State, stored: State) -> State:
    return {k: choose(starts, stored[k], value.detach()) for k, value in state.items()}


FAULT = Fault(
    name="graph-cut",
    stage=Stage.POLICY,
    expects=("GR801", "EQ205"),
    plant=in_recurrent_mode(cut),
)
