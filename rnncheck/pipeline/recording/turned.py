"""Batches whose time is not their last dimension, and losses on such, turned so that it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tensordict import TensorDictBase

from rnncheck.pipeline.keys import STEP_KEY


def is_time_first(batch: TensorDictBase) -> bool:
    """Whether the numbered steps of ``batch`` ``[T, B]`` follow each other along its first
    dimension, and not along its last."""
    numbers = batch.get(STEP_KEY, None)
    if numbers is None or batch.batch_dims != 2 or numbers.numel() != batch.numel():
        return False
    numbers = numbers.reshape(batch.shape)
    first, last = (numbers.diff(dim=dim) == 1 for dim in (0, 1))
    return bool(first.any()) and not bool(last.any())


def time_last(batch: TensorDictBase, dim: int) -> TensorDictBase:
    """The batch with dimension ``dim`` as its last."""
    others = [one for one in range(batch.batch_dims) if one != dim]
    turned: TensorDictBase = batch.permute(*others, dim).contiguous()
    return turned


def on_turned(loss: Callable[..., Any], dim: int) -> Callable[[TensorDictBase], Any]:
    """``loss`` as a function of a batch whose last dimension is the one that it has as ``dim``."""
    return partial(_turned_back, loss, dim)


def _turned_back(loss: Callable[..., Any], dim: int, batch: TensorDictBase) -> Any:
    order = [*range(batch.batch_dims - 1)]
    order.insert(dim, batch.batch_dims - 1)
    return loss(batch.permute(*order).contiguous())
