"""Only the first env of a batch raises its start flag.

A flag written for `[0]` and broadcast as false.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.faults.fault import Fault, at_reset, needs_rows
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage


def first_only(flag: Tensor, before: TensorDictBase | None) -> Tensor:
    kept = torch.zeros_like(flag)
    kept.view(-1)[0] = flag.reshape(-1)[0]
    return kept


def plant(parts: Parts) -> Hooks:
    needs_rows(parts)
    return at_reset(first_only)(parts)


FAULT = Fault(
    name="flag-for-one-env",
    stage=Stage.ENV,
    expects=("WR109", "CL405"),
    plant=plant,
)
