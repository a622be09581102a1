"""The estimator evaluates the critic step by step.

GAE outside set_recurrent_mode(True): V_next is wrong at the start of every segment.
"""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase

from rnncheck.faults.fault import (
    Fault,
    Inside,
    around_estimator,
    needs_training,
    same_estimates,
    wrapped,
)
from rnncheck.faults.sequential_loss import by_steps_in
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.module_changes import mode
from rnncheck.pipeline.subject.subject import carriers
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "advantage")
    network = parts.policy if parts.critic is None else parts.critic
    if not carriers(network):
        raise CannotPlant("the critic carries no state")
    inside, asked = Inside(), list[bool]()

    def sequential(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        right = None if asked else call(td.clone())
        asked.append(True)
        with mode(False):
            out = inside.run(call, td)
        if right is not None and same_estimates(right, out):
            raise CannotPlant("the estimates are the same step by step, from the stored states")
        return out

    change = wrapped(by_steps_in(inside))
    estimator = around_estimator(sequential)(parts).estimator
    return Hooks(policy=change, critic=change, estimator=estimator)


FAULT = Fault(
    name="sequential-estimator",
    stage=Stage.ADVANTAGE,
    expects=("VL602", "VL604", "VL605"),
    plant=plant,
)
