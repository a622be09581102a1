"""The mask says that every step is data.

Rows that were padded to one length, and a mask that is lost behind it.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, where_padded
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    return where_padded(parts, lambda sample, mask: _without(sample, mask))


def _without(sample: TensorDictBase, mask: Key) -> TensorDictBase:
    return sample.copy().set(mask, torch.ones_like(sample.get(mask)))


FAULT = Fault(
    name="mask-dropped",
    stage=Stage.REPLAY,
    expects=("RP505",),
    plant=plant,
)
