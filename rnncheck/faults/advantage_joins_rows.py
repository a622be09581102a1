"""The estimator lays the rows of its batch end to end.

`batch.reshape(-1)` in front of it: what was a row's first step goes on from the last one of the row
before it, and a row's last advantage goes on in the next row.
"""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, around_estimator, needs_training, same_estimates
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "advantage")
    asked = list[bool]()

    def joined(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        if td.ndim < 2 or td.shape[:-1].numel() < 2:
            raise CannotPlant("the estimator gets batches of one row")
        right = None if asked else call(td.clone())
        asked.append(True)
        flat = td.reshape(*[1] * (td.ndim - 1), -1)
        out = call(flat)
        out = (flat if out is None else out).reshape(td.shape)
        if right is not None and same_estimates(right, out):
            raise CannotPlant("the estimates are the same with the rows end to end")
        td.update(out)
        return out

    return around_estimator(joined)(parts)


FAULT = Fault(
    name="advantage-joins-rows",
    stage=Stage.ADVANTAGE,
    expects=("VL601", "VL604"),
    plant=plant,
)
