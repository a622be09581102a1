"""Slices are joined without a start flag.

A plain ReplayBuffer with SliceSampler, or a TorchRL that does not mark them.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, flag_keys, needs_training
from rnncheck.pipeline.keys import present
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "replay", "batch", "loss")
    keys = flag_keys(parts)

    def unmarked(sample: TensorDictBase) -> TensorDictBase:
        for key in present(sample, keys):
            sample.set(key, torch.zeros_like(sample.get(key)))
        return sample

    return Hooks(sample=unmarked)


FAULT = Fault(
    name="slices-unmarked",
    stage=Stage.REPLAY,
    expects=("RP501", "RP503", "RP506"),
    plant=plant,
)
