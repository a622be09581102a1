"""The loss sees a policy without memory.

States dropped from the batch and start flags everywhere.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import (
    Fault,
    around_loss,
    carriers_of,
    flag_keys,
    needs_training,
    reading,
)
from rnncheck.pipeline.keys import present
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "loss")
    keys = [key for one in carriers_of(parts) for key in one.keys]
    flags = [flag for key in flag_keys(parts) for flag in (key, next_key(key))]

    def forgetful(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        empty = {key: torch.zeros_like(td.get(key)) for key in present(td, keys)}
        raised = {key: torch.ones_like(td.get(key)) for key in present(td, flags)}
        return reading(call, td, {**empty, **raised})

    return around_loss(forgetful)(parts)


FAULT = Fault(
    name="memoryless-loss",
    stage=Stage.LOSS,
    expects=("LS703", "GR801", "LS702"),
    plant=plant,
)
