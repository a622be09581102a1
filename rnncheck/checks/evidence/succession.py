"""How the steps that a pass shows lie along it: which of them come right before which."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.traced_steps import Shown
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.pipeline.instruments.module_calls import CarryState
from rnncheck.pipeline.keys import Key, tensor_keys


@dataclass(frozen=True)
class Succession:
    """Along one dimension of a pass, in its batch shape: positions whose left neighbour shows the
    step right before; those whose neighbour shows another step; those of next steps behind their
    own step; the first ones."""

    goes_on: Tensor
    breaks: Tensor
    own: Tensor
    first: Tensor


def succession(steps: Shown, shape: torch.Size, sample: Sample) -> Succession:
    """Along the dimension in which most positions follow their neighbour."""
    found = [_along(steps, shape, sample, dim) for dim in range(len(shape))]
    return max(reversed(found), key=lambda one: int(one.goes_on.sum()))


def _along(steps: Shown, shape: torch.Size, sample: Sample, dim: int) -> Succession:
    place, following = steps.place.reshape(shape), steps.next_ones.reshape(shape)
    before, was_next = place.roll(1, dim), following.roll(1, dim)
    first = torch.zeros(shape, dtype=torch.bool)
    first.select(dim, 0).fill_(True)
    both = (place >= 0) & (before >= 0) & ~first
    own = both & following & ~was_next & (before == place)
    in_time = sample.follows.flatten()[place.clamp_min(0)] & (before == place - 1)
    goes_on = own | (both & in_time & (following == was_next))
    return Succession(goes_on, both & ~goes_on, own, first)


def true_flags(
    steps: Shown, lie: Succession, given: TensorDictBase, keys: Iterable[Key]
) -> CarryState:
    """The start flags for the pass from true states. A next step begins no episode: it goes on from
    its own step where that is the neighbour, and from its own state elsewhere."""
    after, alone = steps.next_ones.reshape(lie.first.shape), not bool(lie.goes_on.any())
    clear = after & (lie.own | lie.first | alone)
    begin = after & lie.breaks & (not alone)
    found = {}
    for key in keys:
        if key in tensor_keys(given):
            flag = given.get(key)
            wide = (*clear.shape, *[1] * (flag.ndim - clear.ndim))
            found[key] = (flag & ~clear.reshape(wide)) | begin.reshape(wide)
    return found
