"""The recorded start flags are false.

The flag is left out of what is stored, and filled with its default.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, flag_keys, needs_collect
from rnncheck.pipeline.keys import present
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_collect(parts)
    keys = flag_keys(parts)

    def lowered(batch: TensorDictBase) -> TensorDictBase:
        for key in present(batch, keys):
            batch.set(key, torch.zeros_like(batch.get(key)))
        return batch

    return Hooks(batch=lowered)


FAULT = Fault(
    name="recorded-flag-lost",
    stage=Stage.COLLECT,
    expects=("CL405",),
    plant=plant,
)
