"""The loss does not see where a segment begins.

Start flags dropped on the way into the loss.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.faults.fault import (
    Fault,
    around_loss,
    carriers_of,
    flag_keys,
    loss_with,
    needs_training,
    reading,
)
from rnncheck.pipeline.keys import Key, present
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.module_changes import choose
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "loss")
    flags, asked = flag_keys(parts), list[bool]()
    states = [key for one in carriers_of(parts) for key in one.keys]

    def joined(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        lowered = {key: torch.zeros_like(td.get(key)) for key in present(td, flags)}
        if not asked:
            asked.append(True)
            _must_join(call, td, lowered, states)
        return reading(call, td, lowered)

    return around_loss(joined)(parts)


def _must_join(
    call: Any, td: TensorDictBase, lowered: dict[Key, Tensor], states: list[Key]
) -> None:
    """A loss that is cut at the flags by something else joins nothing."""
    right, without = loss_with(call, td, {}), loss_with(call, td, lowered)
    if torch.equal(right, without):
        raise CannotPlant("the loss is the same with every start flag lowered")
    begins = [td.get(key).reshape(*td.shape, -1).any(-1) for key in lowered]
    marked = torch.stack(begins).any(0)
    marked[(0,) * td.ndim] = False  # nothing lies before it
    held = present(td, states)
    for step in marked.nonzero() if held else ():
        here = torch.zeros_like(marked)
        here[tuple(step)] = True
        other = {k: choose(here, td.get(k) + 1, td.get(k)) for k in held}
        if torch.equal(without, loss_with(call, td, {**lowered, **other})):
            return
    if held:
        raise CannotPlant(
            "the loss starts from the stored state at every marked step, unmarked too"
        )


FAULT = Fault(
    name="loss-joins-segments",
    stage=Stage.LOSS,
    expects=("LS701",),
    plant=plant,
)
