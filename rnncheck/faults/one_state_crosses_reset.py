"""Recurrent mode resets one of several states and lets the other run on.

Of an LSTM's two states, c is forgotten where sequences are cut.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.faults.fault import Fault, where_it_fits
from rnncheck.pipeline.plant.module_changes import Call, State, by_steps, choose
from rnncheck.pipeline.subject.subject import Carrier
from rnncheck.results.model import Stage


def _kept(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    return by_steps(module, call, td, _all_but_last)


def _all_but_last(starts: Tensor, state: State, stored: State) -> State:
    *reset, last = state
    return {last: state[last], **{k: choose(starts, stored[k], state[k]) for k in reset}}


def _two_states(carrier: Carrier) -> bool:
    return len(carrier.keys) > 1


FAULT = Fault(
    name="one-state-crosses-reset",
    stage=Stage.POLICY,
    expects=("BD301", "BD307", "EQ201"),
    plant=where_it_fits(_kept, _two_states, "every recurrent module has one state"),
)
