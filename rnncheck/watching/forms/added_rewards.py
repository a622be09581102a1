"""Rewards to which a loop adds something where a time limit cuts an episode, and limits that cut
what ends by itself as well."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.held_as import Scale, scale_of
from rnncheck.watching.forms.one_step import OVER

_FEWEST = 2  # steps at which nothing is added


def added_to_rewards(mine: Tensor, batch: TensorDictBase) -> tuple[Tensor, Scale | None] | None:
    """What ``mine`` ``[steps, rows, 1]`` has more than the rewards, ``[rows, steps, 1]``, or than a
    multiple of them by a scale, where that is something at steps alone at which a time limit cut an
    episode. A mask that is 0 or 1 there is none of it: rewards may be 1 at every step as well, or
    0."""
    given, cut, over = (
        batch.get(key).transpose(0, 1) for key in (("next", "reward"), *reversed(OVER[1:]))
    )
    there = cut & ~over
    if mine.shape != given.shape or not mine.is_floating_point() or int((~there).sum()) < _FEWEST:
        return None
    scale = None
    if not torch.equal(mine[~there], given[~there].to(mine.dtype)):
        scale = scale_of(mine[~there], given[~there])
        if scale is None or scale[1] != 0:
            return None
    base = given if scale is None else given.double() * scale[0]
    differs = there & ~torch.isclose(mine.double(), base.double(), 1e-5, 1e-7)
    if not bool(differs.any()) or bool(((mine == 0) | (mine == 1))[differs].all()):
        return None
    more = mine.double() / (1.0 if scale is None else scale[0]) - given.double()
    return torch.where(there, more, 0.0).to(given.dtype).transpose(0, 1), scale


def cut_alone(batch: TensorDictBase) -> dict[Key, Tensor] | None:
    """Where limits cut episodes that did not end by themselves in the same step; None where both
    never come together."""
    over, cut = (batch.get(key, None) for key in OVER[1:])
    if over is None or cut is None or not bool((over & cut).any()):
        return None
    return {OVER[2]: cut & ~over}
