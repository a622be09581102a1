"""The loss is not a number.

A logarithm of zero, or a division by an empty mask.
"""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, around_loss
from rnncheck.pipeline.plant.hooks import Parts
from rnncheck.results.model import Stage


def _broken(call: Any, td: TensorDictBase, parts: Parts) -> Any:
    out = call(td)
    return out * float("nan")


FAULT = Fault(
    name="loss-not-finite",
    stage=Stage.LOSS,
    expects=("GR802",),
    plant=around_loss(_broken),
)
