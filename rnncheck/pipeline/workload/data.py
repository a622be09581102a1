"""Batches of any shape, laid out of steps that the user's own env and policy made."""

from __future__ import annotations

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.subject import Subject

# Rows begin this many steps apart in the pool, so that they differ: no divisor of its usual length,
# so that all steps are first ones in turn.
_STRIDE = 7


def drawn_starts(rows: int, steps: int, resets: float, seed: int) -> Tensor:
    """Start flags ``[rows, steps]``: true at every row's first step, and elsewhere with probability
    ``resets``."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.rand(rows, steps, generator=generator) < resets
    starts[:, 0] = True
    return starts


def lay_inputs(pool: TensorDictBase, rows: int, steps: int) -> TensorDictBase:
    """``[rows, steps]`` out of a pool ``[n]`` of steps, over and over."""
    count = int(pool.shape[0])
    index = _STRIDE * torch.arange(rows)[:, None] + torch.arange(steps)[None, :]
    taken: TensorDictBase = pool[index.reshape(-1) % count]
    return taken.reshape(rows, steps)


def whole_batch(subject: Subject, inputs: TensorDictBase, starts: Tensor) -> TensorDict:
    """``inputs`` ``[rows, steps]`` with start flags and, at every step, the fresh state."""
    rows, steps = starts.shape
    td = TensorDict({key: inputs.get(key) for key in tensor_keys(inputs)}, [rows, steps])
    td.update(subject.flag_values(starts))
    td.update({key: _spread(value, rows, steps) for key, value in subject.fresh.items()})
    return td


def _spread(value: Tensor, rows: int, steps: int) -> Tensor:
    """A fresh state ``[envs, *state]`` for each row at every step; row ``r`` belongs to env
    ``r mod envs``."""
    mine = value[torch.arange(rows) % value.shape[0]]
    return mine.unsqueeze(1).expand(rows, steps, *value.shape[1:]).contiguous()


def resized_sample(
    sample: TensorDictBase, rows: int, steps: int, flags: dict[Key, Tensor]
) -> TensorDictBase:
    """A training sample of ``rows x steps``, made of the steps of ``sample`` over and over.

    It is flat where the sample is. ``flags`` ``[rows, steps, ...]`` replace the start flags.
    """
    flat = sample.reshape(-1)
    taken: TensorDictBase = flat[torch.arange(rows * steps) % flat.shape[0]]
    present = {key: value for key, value in flags.items() if taken.get(key, None) is not None}
    for key, value in present.items():
        laid = value.reshape(rows * steps, *value.shape[2:]).contiguous()
        taken.set(key, laid.to(taken.get(key).device))
    return taken if sample.batch_dims < 2 else taken.reshape(rows, steps)
