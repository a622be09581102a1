"""The stored next states are zeros before the estimator reads them.

A pass of the critic over the same batch that leaves zeros under ("next", state), as TorchRL's
modules do in recurrent mode: next values start from an empty memory.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import (
    Fault,
    around_estimator,
    needs_training,
    reading,
    same_estimates,
)
from rnncheck.pipeline.keys import present
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.subject.subject import carriers, next_key
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "advantage")
    network = parts.policy if parts.critic is None else parts.critic
    keys = [next_key(key) for one in carriers(network) for key in one.keys]
    if not keys:
        raise CannotPlant("the critic carries no state")
    asked = list[bool]()

    def overwritten(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        held = present(td, keys)
        if not held:
            raise CannotPlant("the estimator's batch holds no next state of the critic")
        right = None if asked else call(td.clone())
        asked.append(True)
        states = {key: td.get(key) for key in held}
        out = reading(call, td, {key: torch.zeros_like(td.get(key)) for key in held})
        out = td if out is None else out
        for key in present(out, held):
            out.set(key, states[key])
        if right is not None and same_estimates(right.exclude(*held), out.exclude(*held)):
            raise CannotPlant("the estimates are the same with any next state")
        return out

    return around_estimator(overwritten)(parts)


FAULT = Fault(
    name="next-state-overwritten",
    stage=Stage.ADVANTAGE,
    expects=("VL604", "VL602"),
    plant=plant,
)
