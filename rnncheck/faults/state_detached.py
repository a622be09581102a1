"""The state is detached at each step, in both modes.

A cell that calls detach() on the state that it reads: both modes agree, and nothing is learned over
time.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.faults.fault import Fault, in_both_modes, needs_recurrent_mode
from rnncheck.pipeline.plant.module_changes import (
    Call,
    State,
    by_steps,
    called_with,
    carry_of,
    choose,
    is_recurrent,
)
from rnncheck.results.model import Stage


def detached(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    if is_recurrent():
        return by_steps(module, call, td, _cut)
    return called_with(module, call, td, {key: td.get(key).detach() for key in carry_of(module)})


def _cut(starts: Tensor, state: State, stored: State) -> State:
    return {k: choose(starts, stored[k], value.detach()) for k, value in state.items()}


FAULT = Fault(
    name="state-detached",
    stage=Stage.POLICY,
    expects=("GR801",),
    plant=in_both_modes(detached, needs_recurrent_mode),
)
