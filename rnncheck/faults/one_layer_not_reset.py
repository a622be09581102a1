"""Of several layers one runs on over a reset.

A reset that indexes the layers wrongly: `h[..., 0, :] = 0`.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

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
    """Start flags are hidden; all layers but the last are set to zero here."""
    starts = start_mask(module, td)
    fresh = {key: choose(starts, _but_last(td.get(key)), td.get(key)) for key in carry_of(module)}
    return called_with(module, call, td, {**lowered_flags(module, td), **fresh})


def _but_last(state: Tensor) -> Tensor:
    result = torch.zeros_like(state)
    result[..., -1, :] = state[..., -1, :]
    return result


def two_layers(parts: Parts) -> None:
    first = parts.env.reset()
    states = [first.get(key, None) for one in carriers_of(parts) for key in one.keys]
    ranks = [s.shape[first.ndim :] for s in states if s is not None]
    if not any(len(shape) > 1 and shape[-2] > 1 for shape in ranks):
        raise CannotPlant("no state has several layers")


def plant(parts: Parts) -> Hooks:
    two_layers(parts)
    hooks = while_acting(_kept)(parts)
    return replace(hooks, env=keeping_state(parts, lambda carrier: carrier.keys, _but_last))


FAULT = Fault(
    name="one-layer-not-reset",
    stage=Stage.POLICY,
    expects=("BD307", "CL403", "BD302"),
    plant=plant,
)
