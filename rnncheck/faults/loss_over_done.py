"""The loss does not see where an episode ends.

A target that goes on over a terminated step: `(1 - done)` forgotten, or the flag read under another
key. Where a loss leaves out what has no end behind it, the last end of each row is left.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.faults.fault import Fault, around_loss, ends_of, loss_with, needs_training, reading
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.results.model import Stage

Values = dict[Key, Tensor]


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "loss")
    chosen = list[bool]()

    def loss(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        if not chosen:
            chosen.append(_leaves_last(call, td))
        return reading(call, td, _cleared(td, last=chosen[0]))

    return around_loss(loss)(parts)


def _leaves_last(call: Any, td: TensorDictBase) -> bool:
    """Whether the last end of a row has to stay, lest nothing that was paid enters the loss."""
    right, paid = loss_with(call, td, {}), _more_paid(td)
    for last in (False, True):
        cleared = _cleared(td, last=last)
        wrong = loss_with(call, td, cleared)
        if torch.equal(right, wrong):
            raise CannotPlant("the loss is the same where the ends are taken away")
        if not paid or not torch.equal(wrong, loss_with(call, td, {**cleared, **paid})):
            return last
    raise CannotPlant("no reward enters the loss where the ends are taken away")


def _cleared(td: TensorDictBase, *, last: bool) -> Values:
    """The ends all false, but for the ``last`` of each row where it is to stay."""
    return {key: _of_rows(flag, td.ndim - 1, last=last) for key, flag in ends_of(td).items()}


def _of_rows(flag: Tensor, time: int, *, last: bool) -> Tensor:
    later = flag.flip(time).long().cumsum(time).flip(time)
    return flag & (later == 1) if last else torch.zeros_like(flag)


def _more_paid(td: TensorDictBase) -> Values:
    rewards = [k for k in tensor_keys(td) if k[0] == "next" and k[-1] == "reward"]
    return {key: td.get(key) + 1 for key in rewards}


FAULT = Fault(
    name="loss-over-done",
    stage=Stage.LOSS,
    expects=("VL603", "VL604", "LS701"),
    plant=plant,
)
