"""The rows of a batch are joined end to end.

`data.reshape(-1)` of a `[B, T]` batch: unmarked junctions run into each other.
"""

from __future__ import annotations

from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, needs_collect, needs_rows
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_collect(parts)
    needs_rows(parts)
    return Hooks(batch=joined)


def joined(batch: TensorDictBase) -> TensorDictBase:
    return batch.reshape(-1)


FAULT = Fault(
    name="rows-joined",
    stage=Stage.COLLECT,
    expects=("CL405",),
    plant=plant,
)
