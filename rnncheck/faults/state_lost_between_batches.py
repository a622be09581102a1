"""A batch goes on with an episode of the batch before, and its first state is zero.

A collector of one's own that resets the state, but not the env, between two batches.
"""

from __future__ import annotations

from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, carriers_of, needs_collect
from rnncheck.pipeline.keys import present
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_collect(parts)
    keys = [key for one in carriers_of(parts) for key in one.keys]
    seen: list[int] = []

    def emptied(batch: TensorDictBase) -> TensorDictBase:
        seen.append(batch.numel())
        for key in present(batch, keys) if len(seen) > 1 else ():
            first = batch.get(key).clone()
            first.select(batch.ndim - 1, 0).zero_()
            batch.set(key, first)
        return batch

    return Hooks(batch=emptied)


FAULT = Fault(
    name="state-lost-between-batches",
    stage=Stage.COLLECT,
    expects=("CL404", "CL401", "CL406"),
    plant=plant,
)
