"""Discounted returns that a script has made of rewards as it collected them, one for each step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.storages import DONE

_REWARD: Key = ("next", "reward")
_NAME = "returns"
_CLOSE = 1e-4  # relative, and of the largest: they were summed up in float32
_LEAST = 0.1  # a discount; chosen, less is no sum of rewards


@dataclass(frozen=True)
class ReturnsMade:
    """``G[t] = r[t] + discount * G[t + 1]``, up to the end of an episode, or ``over`` it."""

    discount: float
    over: bool = False

    @property
    def key(self) -> Key:
        """The entry that holds them."""
        return (f"{_NAME}_{int(self.over)}_{self.discount!r}",)

    def of(self, batch: TensorDictBase) -> Tensor:
        """``[rows, steps, 1]``"""
        rewards, done = batch.get(_REWARD), batch.get(DONE)
        total, found = torch.zeros_like(rewards[:, 0]), list[Tensor]()
        for t in reversed(range(rewards.shape[1])):
            kept = total if self.over else total * ~done[:, t]
            total = rewards[:, t] + self.discount * kept
            found.append(total)
        return torch.stack(found[::-1], 1)

    def __call__(self, batch: TensorDictBase) -> TensorDictBase:
        """The entry of ``batch`` ``[rows, steps]``."""
        return TensorDict({self.key: self.of(batch)}, batch_size=batch.batch_size)


def returns_made(mine: Tensor, batch: TensorDictBase) -> ReturnsMade | None:
    """Which returns ``mine`` ``[steps, rows, ...]`` are, if they are; those of the last step are
    its reward."""
    rewards, done = (batch.get(key).transpose(0, 1).flatten(1) for key in (_REWARD, DONE))
    if not mine.is_floating_point() or mine.numel() != rewards.numel() or len(mine) < 2:
        return None
    held, rewards = mine.reshape(rewards.shape).double(), rewards.double()
    near = _CLOSE * max(float(held.abs().max()), 1e-6)
    if bool(((held[-1] - rewards[-1]).abs() > near).any()):
        return None
    rest = held[:-1] - rewards[:-1]
    for over in (False, True):
        after = held[1:] if over else held[1:] * ~done[:-1]
        at = after.abs().argmax()
        discount = float(rest.flatten()[at] / after.flatten()[at]) if bool(after.any()) else 0.0
        if not _LEAST <= discount <= 1 + _CLOSE:
            continue
        if bool(((rest - discount * after).abs() <= near).all()):
            return ReturnsMade(min(discount, 1.0), over)
    return None


def returns_named(key: Key) -> ReturnsMade | None:
    """Those that an entry holds, by its name."""
    name, _, told = key[0].partition("_")
    if name != _NAME or not told:
        return None
    over, _, discount = told.partition("_")
    return ReturnsMade(float(discount), over == "1")
