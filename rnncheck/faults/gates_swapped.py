"""Recurrent mode takes the gates in another order than the cell.

Weights copied between cuDNN's gate order and a hand-written loop's.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, carriers_of, in_recurrent_mode
from rnncheck.pipeline.plant.hooks import CannotPlant, Parts
from rnncheck.pipeline.plant.module_changes import Call, gates_of
from rnncheck.results.model import Stage


def _swapped(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    weights = gates_of(module)
    kept = [weight.detach().clone() for weight in weights]
    for weight in weights:
        size = weight.shape[0] // 4 if weight.shape[0] % 4 == 0 else weight.shape[0] // 3
        weight.data = torch.cat(
            [weight.data[size : 2 * size], weight.data[:size], weight.data[2 * size :]]
        )
    out = call(td)
    for weight, value in zip(weights, kept, strict=True):
        weight.data = value
    return out


def stock(parts: Parts) -> None:
    if not any(gates_of(one.module) for one in carriers_of(parts)):
        raise CannotPlant("no LSTMModule or GRUModule, whose gates have an order")


FAULT = Fault(
    name="gates-swapped",
    stage=Stage.POLICY,
    expects=("EQ201", "EQ203", "CL406"),
    plant=in_recurrent_mode(_swapped, stock),
)
