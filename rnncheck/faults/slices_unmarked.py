"""Slices are joined without a start flag.

A plain ReplayBuffer with SliceSampler, or a TorchRL that does not mark them.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.faults.fault import Fault, flag_keys, needs_training
from rnncheck.pipeline.keys import STEP_KEY, present
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.results.model import Stage

Joint = tuple[int, int]  # numbers of two steps, side by side in a row


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "replay", "batch")
    keys, lowered, told = flag_keys(parts), set[Joint](), list[bool]()

    def unmarked(sample: TensorDictBase) -> TensorDictBase:
        for key in present(sample, keys):
            flag = sample.get(key)
            lowered.update(_joints(sample, flag.reshape(*sample.shape, -1).any(-1)))
            sample.set(key, torch.zeros_like(flag))
        return sample

    def trained(sample: TensorDictBase) -> TensorDictBase:
        everywhere = torch.ones(sample.shape, dtype=torch.bool)
        told.append(not present(sample, [STEP_KEY]) or bool(_joints(sample, everywhere) & lowered))
        return sample

    def loss(made: object) -> object:
        if not any(told):
            raise CannotPlant("every start flag of the training batches stands where a row begins")
        return made

    return Hooks(sample=unmarked, trained=trained, loss=loss)


def _joints(sample: TensorDictBase, where: Tensor) -> set[Joint]:
    """The steps of ``where`` that have a left neighbour, each with it."""
    if not present(sample, [STEP_KEY]):
        return set()
    numbers = sample.get(STEP_KEY).reshape(sample.shape)
    pairs = torch.stack([numbers[..., :-1], numbers[..., 1:]], -1)[where[..., 1:]]
    return {(int(left), int(right)) for left, right in pairs}


FAULT = Fault(
    name="slices-unmarked",
    stage=Stage.REPLAY,
    expects=("RP501", "RP503", "RP506"),
    plant=plant,
)
