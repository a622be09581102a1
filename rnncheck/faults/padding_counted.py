"""The loss centres what it is paid over all steps, padded ones too.

`advantage - advantage.mean()` of padded rows: how much of a batch is padding moves every term.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.faults.fault import Fault, around_loss, loss_with, reading, where_padded
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    padded, asked = where_padded(parts, lambda sample, mask: sample), list[bool]()

    def counting(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        if not asked:
            asked.append(True)
            if torch.equal(loss_with(call, td, {}), loss_with(call, td, _centred_rewards(td))):
                raise CannotPlant("the loss is the same with any reward and any advantage")
        return reading(call, td, _centred_rewards(td))

    def loss(made: Any) -> Any:
        return around_loss(counting)(parts).loss(padded.loss(made))

    return replace(padded, loss=loss)


def _centred_rewards(td: TensorDictBase) -> dict[Key, Tensor]:
    keys = tensor_keys(td)
    found = [key for key in keys if key[-1] == "advantage"]
    found = found or [key for key in keys if key[0] == "next" and key[-1] == "reward"]
    return {key: td.get(key) - td.get(key).mean() for key in found}


FAULT = Fault(
    name="padding-counted",
    stage=Stage.LOSS,
    expects=("RP505",),
    plant=plant,
)
