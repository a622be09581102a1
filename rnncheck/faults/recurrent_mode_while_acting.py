"""Acting runs in recurrent mode: the envs of a batch are taken for a time axis.

set_recurrent_mode(True) left on around the collector. One env alone has no axis that could be taken
for time.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, needs_recurrent_mode, while_acting
from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.plant.hooks import CannotPlant, Parts
from rnncheck.pipeline.plant.module_changes import Call, mode
from rnncheck.results.model import Stage


def _over_rows(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
    with mode(True):
        return call(td)


def needs_rows_or_none(parts: Parts) -> None:
    """Over one row recurrent mode is one step; a module that needs an axis raises where there is
    none."""
    if parts.env.batch_size.numel() < 2 and _acts(parts):
        raise CannotPlant("one env alone: recurrent mode over one row is one step")


def _acts(parts: Parts) -> bool:
    try:
        with mode(True):
            copy_of(parts.policy, "the policy")(parts.env.reset())
    except Exception:  # whatever the user's module raises
        return False
    return True


FAULT = Fault(
    name="recurrent-mode-while-acting",
    stage=Stage.POLICY,
    expects=("BD305", "CL401", "CL406", "EQ201"),
    plant=while_acting(_over_rows, needs_rows_or_none, needs_recurrent_mode),
)
