"""Whole numbers that a script holds as vectors in which one number is set, such as actions."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

_LEAST = 2  # numbers in such a vector


def set_numbers(value: Tensor, like: Tensor, data: Tensor | None = None) -> Tensor | None:
    """Which number is set in each vector ``[rows, steps, numbers]``, in the form of ``like``; None
    where that holds no whole number for each, or other vectors stand at ``data`` ``[rows,
    steps]``."""
    lead = value.shape[:2]
    whole = not like.is_floating_point() and like.dtype != torch.bool
    if not whole or like.shape[:2] != lead or like[0, 0].numel() != 1:
        return None
    flat = value.reshape(*lead, -1)
    if flat.shape[-1] < _LEAST:
        return None
    one = ((flat == 1).sum(-1) == 1) & ((flat == 0).sum(-1) == flat.shape[-1] - 1)
    if not bool((one if data is None else one[data]).all()):
        return None
    return flat.long().argmax(-1).reshape(like.shape).to(like.dtype)


def with_one_set(value: Tensor, numbers: int, data: Tensor | None = None) -> Tensor:
    """The vectors ``[rows, steps, numbers]`` of whole numbers; zeros where there is no ``data``."""
    made = one_hot(value.reshape(value.shape[:2]).long(), numbers)
    return made if data is None else made * data.reshape(*made.shape[:2], 1)
