"""The estimator evaluates the critic step by step.

GAE outside set_recurrent_mode(True): V_next is wrong at the start of every segment.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, Inside, around_estimator, needs_training, wrapped
from rnncheck.faults.sequential_loss import by_steps_in
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.module_changes import mode
from rnncheck.pipeline.subject.subject import carriers
from rnncheck.results.model import Stage

# Below these two estimates count as the same: some thousand, and near zero some ten, roundings of
# float32, which is what another order of the same sums makes. Chosen, the fault itself is larger.
RELATIVE, ABSOLUTE = 1e-4, 1e-6


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
        if right is not None and _same(right, out):
            raise CannotPlant("the estimates are the same step by step, from the stored states")
        return out

    change = wrapped(by_steps_in(inside))
    estimator = around_estimator(sequential)(parts).estimator
    return Hooks(policy=change, critic=change, estimator=estimator)


def _same(right: Any, out: Any) -> bool:
    if not isinstance(right, TensorDictBase) or not isinstance(out, TensorDictBase):
        return False
    keys = [key for key in tensor_keys(out) if out.get(key).is_floating_point()]
    return all(
        torch.allclose(right.get(key), out.get(key), rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)
        for key in keys
    )


FAULT = Fault(
    name="sequential-estimator",
    stage=Stage.ADVANTAGE,
    expects=("VL602", "VL604", "VL605"),
    plant=plant,
)
