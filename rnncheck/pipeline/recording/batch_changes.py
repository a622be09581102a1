"""Whether the ``batch`` factory made what is wrong with a training batch, or was given it so."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import STEP_KEY, dotted, tensor_keys


def changed_between(given: TensorDictBase, made: TensorDictBase, named: str) -> bool:
    """Whether ``made`` has other neighbours in time than ``given``, or lost the entry that is
    ``named``, or holds something else there for the same steps.

    True where the steps cannot be told apart.
    """
    key = next((one for one in tensor_keys(given) if dotted(one) == named), None)
    before, after = _numbers(given), _numbers(made)
    if before is None or after is None or _joins(after) - _joins(before):
        return True
    if key is None:
        return False
    return key not in tensor_keys(made) or not _alike(given.get(key), before, made.get(key), after)


def _numbers(td: TensorDictBase) -> Tensor | None:
    """The collected step's number at each position, ``[rows, steps]``; None where it was lost."""
    numbers = td.get(STEP_KEY, None)
    if numbers is None or td.ndim == 0:
        return None
    rows: Tensor = numbers.reshape(-1, td.shape[-1])
    return rows


def _joins(numbers: Tensor) -> set[tuple[int, int]]:
    """Neighbours that are not neighbours in time."""
    left, right = numbers[:, :-1].flatten(), numbers[:, 1:].flatten()
    odd = right != left + 1
    return set(zip(left[odd].tolist(), right[odd].tolist(), strict=True))


def _alike(old: Tensor, before: Tensor, new: Tensor, after: Tensor) -> bool:
    """Whether every step that both hold has the same entry."""
    places = {number: at for at, number in enumerate(before.flatten().tolist())}
    pairs = [
        (places[number], at)
        for at, number in enumerate(after.flatten().tolist())
        if number in places
    ]
    was, now = (value.reshape(count.numel(), -1) for value, count in ((old, before), (new, after)))
    if not pairs or was.shape[1:] != now.shape[1:]:
        return True
    left, right = (torch.tensor(side) for side in zip(*pairs, strict=True))
    return torch.equal(was[left], now[right])
