"""The networks run step by step inside the loss.

A loss without recurrent mode: every step starts from its stored state, and nothing is learned over time.
"""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import (
    Fault,
    around_loss,
    needs_recurrent_mode,
    needs_training,
    wrapped,
)
from rnncheck.pipeline.hooks import Hooks, Parts
from rnncheck.pipeline.tamper import Call, mode
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "loss")
    needs_recurrent_mode(parts)
    inside: list[bool] = []

    def loss(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        inside.append(True)
        try:
            return call(td)
        finally:
            inside.pop()

    def network(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
        if not inside:
            return call(td)
        with mode(False):
            return call(td)

    change = wrapped(network)
    return Hooks(policy=change, critic=change, loss=around_loss(loss)(parts).loss)


FAULT = Fault(
    name="sequential-loss",
    stage=Stage.LOSS,
    expects=("GR801", "LS703", "LS702"),
    plant=plant,
)
