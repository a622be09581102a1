"""No reset raises the start flag.

InitTracker forgotten, or its key overwritten by a later transform.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.faults.fault import Fault, at_reset
from rnncheck.results.model import Stage


def _lowered(flag: Tensor, before: TensorDictBase | None) -> Tensor:
    return torch.zeros_like(flag)


FAULT = Fault(
    name="flag-dropped",
    stage=Stage.ENV,
    expects=("WR109", "CL405"),
    plant=at_reset(_lowered),
)
