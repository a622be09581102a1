"""The rows of a batch are joined end to end.

`data.reshape(-1)` of a `[B, T]` batch: unmarked junctions run into each other, and so do the sums
of an estimator where no row ends with its episode.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, ends_of, flag_keys, needs_collect, needs_rows
from rnncheck.pipeline.keys import Key, present
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_collect(parts)
    needs_rows(parts)
    flags, count = flag_keys(parts), parts.spec.collect and parts.spec.collect.args.get("batches")
    estimates, told = parts.spec.advantage is not None, list[bool]()

    def joined(batch: TensorDictBase) -> TensorDictBase:
        told.append(_unmarked(batch, flags) or (estimates and _undone(batch)))
        if not any(told) and (len(told) > 1 or count == 1):
            raise CannotPlant("every row of a batch begins with a start flag")
        return batch.reshape(-1)

    return Hooks(batch=joined)


def _unmarked(batch: TensorDictBase, flags: tuple[Key, ...]) -> bool:
    """Whether a row behind another begins without a start flag."""
    first = batch[..., 0].reshape(-1)[1:]
    marks = [first.get(key).reshape(len(first), -1).any(-1) for key in present(first, flags)]
    return not marks or not bool(torch.stack(marks).any(0).all())


def _undone(batch: TensorDictBase) -> bool:
    """Whether a row in front of another ends before its episode."""
    last = batch[..., -1].reshape(-1)[:-1]
    ends = [flag.reshape(len(last), -1).any(-1) for flag in ends_of(last).values()]
    return not ends or not bool(torch.stack(ends).any(0).all())


FAULT = Fault(
    name="rows-joined",
    stage=Stage.COLLECT,
    expects=("CL405", "VL601"),
    plant=plant,
)
