"""Rows of a training batch: whether each is one episode, whatever its start flags say."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_items, tensor_keys
from rnncheck.watching.forms.time_axis import prints

_FLAG = "is_init"


def one_episode_each(batch: TensorDictBase, acted: Sequence[TensorDictBase]) -> bool:
    """Whether every row of ``batch`` ``[rows, steps]`` begins with what an episode began with while
    acting, and nothing in it but that did; told by an entry that tells starts from other steps."""
    if batch.batch_dims != 2 or not acted:
        return False
    known = [set(tensor_keys(one)) for one in acted]
    for key, value in tensor_items(batch):
        shared = key[0] != "next" and value.is_floating_point() and all(key in one for one in known)
        if shared and _told_by(value, key, acted):
            return True
    return False


def marked_inside(batch: TensorDictBase, acted: Sequence[TensorDictBase]) -> bool:
    """Whether a row of ``batch`` ``[rows, steps]`` has a start flag at its first step and begins,
    as it was acted, inside of an episode: what cut it there has marked it."""
    marked = _starts(batch).reshape(batch.shape)[:, 0].tolist()
    for key, value in tensor_items(batch):
        shared = key[0] != "next" and value.is_floating_point()
        if not shared or not all(key in tensor_keys(one) for one in acted):
            continue
        first, later = _as_acted(key, acted)
        begun = prints(value[:, 0].reshape(len(batch), -1))
        found = zip(begun, marked, strict=True)
        if any(mark and one in later and one not in first for one, mark in found):
            return True
    return False


def _as_acted(key: Key, acted: Sequence[TensorDictBase]) -> tuple[set[bytes], set[bytes]]:
    """What stood there at first steps of episodes, and at others."""
    first, later = set[bytes](), set[bytes]()
    for one in acted:
        begins = _starts(one).tolist()
        held = prints(one.get(key).reshape(one.numel(), -1))
        first |= {print_ for print_, begin in zip(held, begins, strict=True) if begin}
        later |= {print_ for print_, begin in zip(held, begins, strict=True) if not begin}
    return first, later


def _told_by(value: Tensor, key: Key, acted: Sequence[TensorDictBase]) -> bool:
    first, later = _as_acted(key, acted)
    if not first or first & later:
        return False
    rows, steps = value.shape[:2]
    told = [one in first for one in prints(value.reshape(rows * steps, -1))]
    at = torch.tensor(told).reshape(rows, steps)
    return bool(at[:, 0].all()) and not bool(at[:, 1:].any())


def _starts(batch: TensorDictBase) -> Tensor:
    """``[steps of all rows]``."""
    found = torch.zeros(batch.numel(), dtype=torch.bool)
    for key in tensor_keys(batch):
        if key[-1] == _FLAG and key[0] != "next":
            found |= batch.get(key).reshape(batch.numel(), -1).any(-1).cpu()
    return found
