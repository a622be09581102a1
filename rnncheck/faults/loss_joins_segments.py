"""The loss does not see where a segment begins.

Start flags dropped on the way into the loss.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, around_loss, flag_keys, needs_training, reading
from rnncheck.pipeline.keys import present
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "loss")
    flags = flag_keys(parts)

    def joined(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        return reading(call, td, {k: torch.zeros_like(td.get(k)) for k in present(td, flags)})

    return around_loss(joined)(parts)


FAULT = Fault(
    name="loss-joins-segments",
    stage=Stage.LOSS,
    expects=("LS701",),
    plant=plant,
)
