"""The loss writes into the batch that it is given.

A second epoch over the same batch then trains on other rewards.
"""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, around_loss
from rnncheck.pipeline.plant.hooks import Parts
from rnncheck.results.model import Stage

FACTOR = 0.5  # exact in every floating type; any other than 1 rewrites the batch


def rewriting(call: Any, td: TensorDictBase, parts: Parts) -> Any:
    for key in (("next", "reward"), "advantage", "value_target"):
        if key in td.keys(True):
            td.get(key).mul_(FACTOR)
    return call(td)


FAULT = Fault(
    name="loss-changes-batch",
    stage=Stage.LOSS,
    expects=("LS705",),
    plant=around_loss(rewriting),
)
