"""Start flags of rows that a script trains on without them: where each row is one episode from its
beginning on, nothing in the training pass needs to be told so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_items, tensor_keys
from rnncheck.watching.forms.time_axis import prints
from rnncheck.watching.seen import Called

_FLAG = "is_init"
_KNOWN = 0.5  # share of the rows that must be of what was collected before the first update


def with_starts(loss: Called, acted: Sequence[TensorDictBase]) -> Called:
    """The loss on its batches with a flag at the first step of each row; as it is where they have
    flags, or rows begin or go on elsewhere."""
    flags = [k for k, _ in tensor_items(acted[0]) if k[-1] == _FLAG and k[0] != "next"]
    if len(flags) != 1 or any(one.batch_dims < 2 for one in loss.inputs):
        return loss
    if any(flags[0] in tensor_keys(one) for one in loss.inputs):
        return loss
    told_by = _shown(acted, loss.inputs)
    known = _starts(acted, told_by, flags[0]) if told_by else {}
    rows = [one for batch in loss.inputs for one in _rows(batch, told_by, known)]
    sure = [one for one in rows if one is not None]
    if not known or not all(sure) or len(sure) < _KNOWN * len(rows):
        return loss
    return replace(loss, inputs=[_flagged(one, flags[0]) for one in loss.inputs])


def _shown(acted: Sequence[TensorDictBase], given: Sequence[TensorDictBase]) -> list[Key]:
    """What tells steps: numbers that the env shows of each, in both."""
    both = set.intersection(*(set(tensor_keys(one)) for one in (*acted, *given)))
    numbers = [key for key in both if given[0].get(key).is_floating_point()]
    return sorted(key for key in numbers if key[0] != "next" and ("next", *key) in both)


def _starts(
    acted: Sequence[TensorDictBase], told_by: list[Key], flag: Key
) -> dict[bytes, set[bool]]:
    """By what tells a collected step, whether it begins an episode: both, where two are alike."""
    found = dict[bytes, set[bool]]()
    for batch in acted:
        begins = batch.get(flag).reshape(batch.numel(), -1).any(1).tolist()
        for told, begin in zip(_told(batch, told_by), begins, strict=True):
            found.setdefault(told, set()).add(begin)
    return found


def _rows(
    batch: TensorDictBase, told_by: list[Key], known: dict[bytes, set[bool]]
) -> Iterator[bool | None]:
    """Of each row whether it begins with an episode, and no other begins inside of it; None where
    it begins with a step that was not collected."""
    steps = batch.shape[-1]
    told = _told(batch, told_by)
    for begin in range(0, len(told), steps):
        first, *later = (known.get(one) for one in told[begin : begin + steps])
        if first is None:
            yield None
        else:
            yield True in first and all(one is None or False in one for one in later)


def _told(batch: TensorDictBase, keys: list[Key]) -> list[bytes]:
    steps = (prints(batch.get(key).reshape(batch.numel(), -1)) for key in keys)
    return [b"".join(one) for one in zip(*steps, strict=True)]


def _flagged(batch: TensorDictBase, flag: Key) -> TensorDictBase:
    begins: Tensor = torch.zeros((*batch.shape, 1), dtype=torch.bool, device=batch.device)
    begins[..., 0, :] = True
    return batch.clone().set(flag, begins)
