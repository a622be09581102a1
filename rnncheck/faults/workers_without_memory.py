"""In worker processes the policy acts without its memory.

An env maker whose state primer is appended in the main process only.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, needs_workers, while_acting
from rnncheck.pipeline.compat import is_worker
from rnncheck.pipeline.plant.module_changes import Call, called_with, carry_of
from rnncheck.results.model import Stage


def _forgetful(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    if not is_worker():
        return call(td)
    found = {key: td.get(key) for key in carry_of(module) if td.get(key, None) is not None}
    return called_with(module, call, td, {k: torch.zeros_like(v) for k, v in found.items()})


FAULT = Fault(
    name="workers-without-memory",
    stage=Stage.COLLECT,
    expects=("CL407", "CL401"),
    plant=while_acting(_forgetful, needs_workers),
)
