"""The start flag is true everywhere but at a start.

An `is_init` taken for its opposite: a mask of steps that go on.
"""

from __future__ import annotations

from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, flag_keys
from rnncheck.pipeline.plant.env_changes import altered
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    keys = flag_keys(parts)

    def inverted(before: TensorDictBase | None, given: TensorDictBase) -> TensorDictBase:
        for key in keys:
            given.set(key, ~given.get(key))
        return given

    return Hooks(env=lambda env: altered(env, inverted, inverted))


FAULT = Fault(
    name="flag-inverted",
    stage=Stage.ENV,
    expects=("WR109", "CL405"),
    plant=plant,
)
