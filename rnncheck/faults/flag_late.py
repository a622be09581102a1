"""The start flag comes one step after the start.

A flag computed from the done of the step before last.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.faults.fault import Fault, flag_keys
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.plant.env_changes import EnvChange, altered
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    keys = flag_keys(parts)
    return Hooks(env=lambda env: altered(env, *_delay(keys)))


def _delay(keys: tuple[Key, ...]) -> tuple[EnvChange, EnvChange]:
    held: dict[Key, Tensor] = {}

    def reset(before: TensorDictBase | None, given: TensorDictBase) -> TensorDictBase:
        for key in keys:
            flag = given.get(key).clone()
            held[key] = flag | held[key] if before is not None and key in held else flag
            given.set(key, torch.zeros_like(flag))
        return given

    def step(before: TensorDictBase | None, given: TensorDictBase) -> TensorDictBase:
        for key in keys:
            given.set(key, held.pop(key, torch.zeros_like(given.get(key))))
        return given

    return reset, step


FAULT = Fault(
    name="flag-late",
    stage=Stage.ENV,
    expects=("WR109", "CL405"),
    plant=plant,
)
