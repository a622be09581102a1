"""Of several states one runs on over a reset: h is reset and c is not.

A reset written for the hidden state alone.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, carriers_of, keeping_state, while_acting
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.module_changes import (
    Call,
    called_with,
    carry_of,
    choose,
    lowered_flags,
    start_mask,
)
from rnncheck.results.model import Stage


def _kept(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    """Start flags are hidden; the other states are set to zero here."""
    starts = start_mask(module, td)
    fresh = {
        key: choose(starts, torch.zeros_like(td.get(key)), td.get(key))
        for key in carry_of(module)[:-1]
    }
    return called_with(module, call, td, {**lowered_flags(module, td), **fresh})


def _two_states(parts: Parts) -> None:
    if all(len(one.keys) < 2 for one in carriers_of(parts)):
        raise CannotPlant("every recurrent module that acts has one state")


def plant(parts: Parts) -> Hooks:
    _two_states(parts)
    hooks = while_acting(_kept)(parts)
    return replace(hooks, env=keeping_state(parts, lambda carrier: carrier.keys[-1:]))


FAULT = Fault(
    name="one-state-not-reset",
    stage=Stage.POLICY,
    expects=("BD307", "CL403", "BD302"),
    plant=plant,
)
