"""The estimator does not see where an episode ends.

Done flags that are dropped, or kept under a key that nobody reads.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, around_estimator, ends_of
from rnncheck.pipeline.keys import present
from rnncheck.pipeline.plant.hooks import Parts
from rnncheck.results.model import Stage


def endless(call: Any, td: TensorDictBase, parts: Parts) -> Any:
    held = ends_of(td)
    for key, flag in held.items():
        td.set(key, torch.zeros_like(flag))
    out = call(td)
    for one in (td, out):
        for key in present(one, held) if isinstance(one, TensorDictBase) else ():
            one.set(key, held[key])
    return out


FAULT = Fault(
    name="advantage-over-done",
    stage=Stage.ADVANTAGE,
    expects=("VL601", "VL603", "VL604"),
    plant=around_estimator(endless),
)
