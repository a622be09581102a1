"""The networks run step by step inside the loss.

A loss without recurrent mode: every step starts from its stored state, and nothing is learned over
time.
"""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import (
    Fault,
    Inside,
    around_loss,
    needs_recurrent_mode,
    needs_training,
    wrapped,
)
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.module_changes import Around, Call, is_recurrent, mode
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "loss")
    needs_recurrent_mode(parts)
    inside, ran = Inside(), list[bool]()

    def loss(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        out = inside.run(call, td)
        if ran and not any(ran):
            raise CannotPlant("the loss runs its networks step by step as it is")
        return out

    def by_steps(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
        if inside.batch is not None:
            ran.append(is_recurrent())
        return by_steps_in(inside)(module, call, td)

    change = wrapped(by_steps)
    return Hooks(policy=change, critic=change, loss=around_loss(loss)(parts).loss)


def by_steps_in(inside: Inside) -> Around:
    """Sequential mode for what runs inside."""

    def around(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
        if inside.batch is None:
            return call(td)
        with mode(False):
            return call(td)

    return around


FAULT = Fault(
    name="sequential-loss",
    stage=Stage.LOSS,
    expects=("GR801", "LS703", "LS702"),
    plant=plant,
)
