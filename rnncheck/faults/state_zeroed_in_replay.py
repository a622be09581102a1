"""A slice starts from zeros where the trajectory had a state.

A replay transform that primes every slice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.faults.fault import Fault, around_loss, carriers_of, flag_keys, loss_with, on_samples
from rnncheck.pipeline.keys import STEP_KEY, Key, present
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    keys, flags = [key for one in carriers_of(parts) for key in one.keys], flag_keys(parts)
    lost, told, asked = set[int](), list[bool](), list[bool]()

    def zeroed(sample: TensorDictBase, parts: Parts) -> TensorDictBase:
        for key in present(sample, keys):
            held = sample.get(key)
            lost.update(_numbers(sample, (held != 0).reshape(*sample.shape, -1).any(-1)))
            sample.set(key, torch.zeros_like(held))
        return sample

    def trained(sample: TensorDictBase) -> TensorDictBase:
        starts = _numbers(sample, _starts(sample, flags))
        told.append(not present(sample, [STEP_KEY]) or bool(starts & lost))
        return sample

    def loss(call: Any, td: TensorDictBase, parts: Parts) -> Any:
        if not any(told):
            raise CannotPlant("every slice of the training batches begins with a state of zeros")
        if not asked:
            asked.append(True)
            other = {key: td.get(key) + 1 for key in present(td, keys)}
            if torch.equal(loss_with(call, td, {}), loss_with(call, td, other)):
                raise CannotPlant("the loss is the same with any stored state")
        return call(td)

    hooks = replace(on_samples(zeroed)(parts), trained=trained)
    return hooks if parts.spec.loss is None else replace(hooks, loss=around_loss(loss)(parts).loss)


def _starts(sample: TensorDictBase, flags: tuple[Key, ...]) -> Tensor:
    """The first step of each row, and what carries a start flag."""
    starts = torch.zeros(sample.shape, dtype=torch.bool)
    starts[..., 0] = True
    for key in present(sample, flags):
        starts |= sample.get(key).reshape(*sample.shape, -1).any(-1)
    return starts


def _numbers(sample: TensorDictBase, where: Tensor) -> set[int]:
    """The collected steps at ``where``."""
    if not present(sample, [STEP_KEY]):
        return set()
    return set(sample.get(STEP_KEY).reshape(sample.shape)[where].tolist())


FAULT = Fault(
    name="state-zeroed-in-replay",
    stage=Stage.REPLAY,
    expects=("RP504", "RP507"),
    plant=plant,
)
