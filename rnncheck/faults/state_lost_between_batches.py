"""A batch goes on with an episode of the batch before, and its first state is zero.

A collector of one's own that resets the state, but not the env, between two batches.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.faults.fault import Fault, carriers_of, flag_keys, needs_collect
from rnncheck.pipeline.keys import Key, present
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_collect(parts)
    if parts.spec.collect is not None and parts.spec.collect.args.get("batches") == 1:
        raise CannotPlant("one batch is collected: none comes after it")
    keys, flags = [key for one in carriers_of(parts) for key in one.keys], flag_keys(parts)
    seen, lost = list[int](), list[bool]()

    def emptied(batch: TensorDictBase) -> TensorDictBase:
        seen.append(batch.numel())
        for key in present(batch, keys) if len(seen) > 1 else ():
            first = batch.get(key).clone()
            begin = first.select(batch.ndim - 1, 0)
            lost.append(bool(begin[~_starts(batch, flags)].any()))
            begin.zero_()
            batch.set(key, first)
        if len(seen) > 1 and not any(lost):
            raise CannotPlant("a second batch goes on with no episode whose state could be lost")
        return batch

    return Hooks(batch=emptied)


def _starts(batch: TensorDictBase, flags: tuple[Key, ...]) -> Tensor:
    """Which rows begin with a start flag."""
    first = batch[..., 0]
    found = [first.get(key).reshape(*first.shape, -1).any(-1) for key in present(first, flags)]
    return torch.stack(found).any(0) if found else torch.zeros(first.shape, dtype=torch.bool)


FAULT = Fault(
    name="state-lost-between-batches",
    stage=Stage.COLLECT,
    expects=("CL404", "CL401", "CL406"),
    plant=plant,
)
