"""The estimator does not see where an episode ends.

Done flags that are dropped, or kept under a key that nobody reads.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, around_estimator
from rnncheck.pipeline.hooks import Parts
from rnncheck.results.model import Stage

ENDS = ("done", "terminated", "truncated")


def endless(call: Any, td: TensorDictBase, parts: Parts) -> Any:
    held = {name: td.get(("next", name)) for name in ENDS if ("next", name) in td.keys(True)}
    for name, flag in held.items():
        td.set(("next", name), torch.zeros_like(flag))
    out = call(td)
    for name, flag in held.items():
        out.set(("next", name), flag)
    return out


FAULT = Fault(
    name="advantage-over-done",
    stage=Stage.ADVANTAGE,
    expects=("VL601", "VL603", "VL604"),
    plant=around_estimator(endless),
)
