"""The recorded state is the one of the step before.

The state is written after the step that it was read by.
"""

from __future__ import annotations

from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, carriers_of, needs_collect
from rnncheck.pipeline.keys import present
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_collect(parts)
    keys = [key for one in carriers_of(parts) for key in one.keys]

    def late(batch: TensorDictBase) -> TensorDictBase:
        for key in present(batch, keys):
            batch.set(key, batch.get(key).roll(1, batch.ndim - 1))
        return batch

    return Hooks(batch=late)


FAULT = Fault(
    name="recorded-state-late",
    stage=Stage.COLLECT,
    expects=("CL402", "CL403", "CL406"),
    plant=plant,
)
