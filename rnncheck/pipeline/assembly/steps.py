"""Numbers on the collected steps, so that every sampled step can be traced back to where it came
from."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import STEP_KEY

_MASK_KEYS = (("collector", "mask"), ("mask",))  # what split_trajs and padding transforms write


def tagged(batches: Iterable[TensorDictBase]) -> list[TensorDictBase]:
    """Copies of the batches whose steps hold their number: batch by batch, row by row, then in
    time."""
    done, offset = [], 0
    for batch in batches:
        done.append(tag(batch.clone(), offset))
        offset += batch.numel()
    return done


def tag(batch: TensorDictBase, offset: int = 0) -> TensorDictBase:
    """Write the numbers from ``offset`` on into ``batch``; -1 where a mask calls a step padding."""
    first, last = offset + 1, offset + batch.numel()  # 0 is what padding with zeros leaves
    numbers = torch.arange(first, last + 1, device=batch.device).view(batch.shape)
    mask = _mask(batch)
    if mask is not None:
        numbers = numbers.masked_fill(~mask, -1)
    batch.set(STEP_KEY, numbers.unsqueeze(-1))
    return batch


def _mask(batch: TensorDictBase) -> Tensor | None:
    for key in _MASK_KEYS:
        found = batch.get(key, None)
        if isinstance(found, Tensor) and found.dtype is torch.bool:
            if found.shape == batch.shape:
                return found
            if found.shape == (*batch.shape, 1):
                return found.squeeze(-1)
    return None
