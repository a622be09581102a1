"""Tools for changing a replay buffer from outside: what its sampler draws."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch import Tensor
from torchrl.data.replay_buffers import ReplayBuffer, RoundRobinWriter, SliceSampler

from rnncheck.pipeline.plant.hooks import CannotPlant

# Steps that the buffer holds at most, so that it is written over within seconds. Chosen: a few
# times what a spec collects.
ROOM = 2048


def over_the_cursor(buffer: Any) -> Any:
    """``buffer`` whose samples begin with a slice that lies across its write cursor, once it is
    full."""
    if not isinstance(buffer, ReplayBuffer) or not isinstance(buffer.sampler, SliceSampler):
        raise CannotPlant("no slice sampler of TorchRL's draws the training batches")
    if not isinstance(buffer.writer, RoundRobinWriter) or not hasattr(buffer.storage, "max_size"):
        raise CannotPlant("the buffer is no ring that is written over")
    if len(buffer) == 0:
        buffer.storage.max_size = min(buffer.storage.max_size, ROOM)
    original = type(buffer.sampler)

    def sample(self: Any, storage: Any, batch_size: int) -> Any:
        index, info = original.sample(self, storage, batch_size)
        if not getattr(storage, "_is_full", False):
            return index, info
        first, *rest = index if isinstance(index, tuple) else (index,)
        moved = _across(
            first, int(buffer.writer._cursor), len(storage) if not rest else storage.shape[0]
        )
        return (moved, *rest) if isinstance(index, tuple) else moved, info

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(sample=sample, __module__=__name__)

    buffer.sampler.__class__ = types.new_class(original.__name__, (original,), {}, fill)
    return buffer


def _across(index: Tensor, cursor: int, room: int) -> Tensor:
    """``index`` whose first slice lies half before and half behind the cursor."""
    ends = (index[1:] != (index[:-1] + 1) % room).nonzero().flatten().tolist()
    length = ends[0] + 1 if ends else len(index)
    moved = index.clone()
    moved[:length] = (cursor - length // 2 + torch.arange(length)) % room
    return moved
