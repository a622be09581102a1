"""The steps of rows that a script trains on, as they were collected."""

from __future__ import annotations

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import tensor_items
from rnncheck.watching.forms.plain_calls import FLAG, MASK_OF_ROWS, OBSERVATION
from rnncheck.watching.forms.storages import DONE


def recorded_steps(
    acted: TensorDictBase, order: Tensor, empty: Tensor | None = None
) -> TensorDictBase:
    """The collected steps in this order, ``[rows, steps]``; an unknown one is the first, but begins
    no episode unless the step ahead of it ends one. Those that are ``empty`` hold zeros, and a mask
    says so."""
    row, step = order[..., 0].clamp_min(0), order[..., 1].clamp_min(0)
    found = {key: value[row, step] for key, value in tensor_items(acted)}
    if {(FLAG,), DONE} <= found.keys():
        unknown, flag = order[:, 1:, 0] < 0, found[FLAG,][:, 1:]
        flag[unknown] = found[DONE][:, :-1][unknown]
    if empty is not None and bool(empty.any()):
        for value in found.values():
            value[empty] = 0
        found[MASK_OF_ROWS] = ~empty.unsqueeze(-1)
    return TensorDict(found, batch_size=order.shape[:2])


def behind_ends(told: Tensor) -> Tensor:
    """``[rows, steps]``: the steps of a row behind the last one that is ``told``."""
    return told.flip(1).cumsum(1).flip(1) == 0


def with_data(batch: TensorDictBase) -> TensorDictBase:
    """The rows that have a step: the end of an episode may lie ahead of what a call is given."""
    mask = batch.get(MASK_OF_ROWS, None)
    there = None if mask is None else mask.flatten(1).any(1)
    return batch if there is None or not bool(there.any()) else batch[there]


def begins_later(batch: TensorDictBase, drawn: Tensor) -> bool:
    """Whether a batch is rows that were ``drawn``, ``[rows, steps, ...]``, without their first
    steps."""
    own = batch.get(OBSERVATION)
    rows, steps = own.shape[:2]
    if len(drawn) != rows or drawn.shape[1] <= steps:
        return False
    laid, seen = (one.reshape(rows, one.shape[1], -1).to(own.dtype) for one in (drawn, own))
    begins = range(drawn.shape[1] - steps + 1)
    found = (one for one in begins if torch.equal(laid[:, one : one + steps], seen))
    return next(found, 0) > 0
