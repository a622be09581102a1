"""The loss does not see where an episode ends.

A target that goes on over a terminated step: `(1 - done)` forgotten, or the flag read under another
key.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rnncheck.faults.advantage_over_done import endless
from rnncheck.faults.fault import Fault, around_loss, needs_training
from rnncheck.pipeline.instruments.call_loss import total_of
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "loss")
    asked = list[bool]()

    def loss(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        if not asked:
            asked.append(True)
            if _reads_no_end(call, td, parts):
                raise CannotPlant("the loss is the same where the ends are taken away")
        return endless(call, td, parts)

    return around_loss(loss)(parts)


def _reads_no_end(call: Any, td: TensorDictBase, parts: Parts) -> bool:
    with torch.random.fork_rng(devices=[]):
        right, _ = total_of(call(td.clone()))
    with torch.random.fork_rng(devices=[]):
        wrong, _ = total_of(endless(call, td.clone(), parts))
    return torch.equal(right, wrong)


FAULT = Fault(
    name="loss-over-done",
    stage=Stage.LOSS,
    expects=("VL603", "VL604", "LS701"),
    plant=plant,
)
