"""The loss lays the rows of its batch end to end.

`batch.reshape(-1)` inside the loss: what was a row's first step goes on from the last one of the
row before it, state and sums and all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, around_loss, flag_keys, loss_with, needs_training
from rnncheck.pipeline.keys import present
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.results.model import Stage

ROUNDING = 1e-5  # of the loss: sums in another order


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "loss")
    flags, unmarked, asked = flag_keys(parts), list[bool](), list[bool]()

    def look(td: TensorDictBase) -> TensorDictBase:
        rows = td.reshape(-1, td.shape[-1]) if td.ndim > 1 else td.reshape(1, -1)
        begins = [rows.get(key)[1:, 0] for key in present(rows, flags)]
        unmarked.append(len(rows) > 1 and bool(begins) and not any(bool(b.all()) for b in begins))
        return td

    def joined(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        if not any(unmarked):
            raise CannotPlant("no row of a training batch begins behind another without a flag")
        flat = td if td.ndim < 2 else td.reshape(*[1] * (td.ndim - 1), -1)
        if not asked:
            asked.append(True)
            if torch.isclose(loss_with(call, td, {}), loss_with(call, flat, {}), rtol=ROUNDING):
                raise CannotPlant("the loss is the same with the rows end to end")
        return call(flat)

    return replace(around_loss(joined)(parts), trained=look)


FAULT = Fault(
    name="loss-joins-rows",
    stage=Stage.LOSS,
    expects=("LS701",),
    plant=plant,
)
