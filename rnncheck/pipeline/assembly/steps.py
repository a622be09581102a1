"""Numbers on the collected steps, so that every sampled step can be traced back to where it came
from."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tensordict import TensorDictBase

from rnncheck.pipeline.keys import STEP_KEY
from rnncheck.pipeline.placing import place_of
from rnncheck.pipeline.recording.masks import halted, padding_mask


def tagged(batches: Iterable[TensorDictBase]) -> list[TensorDictBase]:
    """Copies of the batches whose steps hold their number: batch by batch, row by row, then in
    time."""
    done, offset = [], 0
    for batch in batches:
        done.append(tag(batch.clone(), offset))
        offset += batch.numel()
    return done


def tag(batch: TensorDictBase, offset: int = 0) -> TensorDictBase:
    """Write the numbers from ``offset`` on into ``batch``; -1 where a step is padding."""
    first, last = offset + 1, offset + batch.numel()  # 0 is what padding with zeros leaves
    numbers = torch.arange(first, last + 1, device=place_of(batch)).view(batch.shape)
    mask = padding_mask(batch)
    if mask is not None:
        numbers = numbers.masked_fill(~mask[1], -1)
    elif batch.batch_dims:
        copies = halted(batch.reshape(-1, batch.shape[-1]))
        numbers = numbers.masked_fill(copies.view(batch.shape), -1)
    batch.set(STEP_KEY, numbers.unsqueeze(-1))
    return batch
