"""Acting runs in recurrent mode: the envs of a batch are taken for a time axis.

set_recurrent_mode(True) left on around the collector.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, needs_recurrent_mode, needs_rows, while_acting
from rnncheck.pipeline.tamper import Call, mode
from rnncheck.results.model import Stage


def over_rows(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    with mode(True):
        return call(td)


FAULT = Fault(
    name="recurrent-mode-while-acting",
    stage=Stage.POLICY,
    expects=("BD305", "CL401", "CL406", "EQ201"),
    plant=while_acting(over_rows, needs_rows, needs_recurrent_mode),
)
