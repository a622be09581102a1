"""The recorded states are zeros.

A buffer that was allocated for the states and never written.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, carriers_of, needs_collect
from rnncheck.pipeline.keys import present
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_collect(parts)
    keys = [key for one in carriers_of(parts) for key in one.keys]

    def zeroed(batch: TensorDictBase) -> TensorDictBase:
        for key in present(batch, keys):
            batch.set(key, torch.zeros_like(batch.get(key)))
        return batch

    return Hooks(batch=zeroed)


FAULT = Fault(
    name="recorded-state-zeroed",
    stage=Stage.COLLECT,
    expects=("CL402", "CL406"),
    plant=plant,
)
