"""States as a loop stores them before it puts them back: where an episode begins, what the step
before it left, which acting was given times a mask."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.watching.forms.plain_calls import FLAG, OBSERVATION
from rnncheck.watching.forms.shown_entries import shown_keys


def left_states(batch: TensorDictBase) -> set[Key]:
    """The entries of what a step leaves that the one behind it begins with."""
    keys = set(tensor_keys(batch))
    others = {OBSERVATION, FLAG, *shown_keys(batch)}
    return {("next", *key) for key in keys - others if ("next", *key) in keys}


def begins_with_its_state(first: Tensor, left: Key, batch: TensorDictBase) -> bool:
    """Whether ``first`` ``[rows, …]`` is the state that the first step was given, or stands where
    an episode begins, with which acting did without it."""
    if left not in left_states(batch):
        return False
    state = batch.get(left[1:])[:, 0]
    own = first.reshape(len(state), -1) == state.reshape(len(state), -1).to(first.dtype)
    begun = batch.get(FLAG)[:, 0].reshape(len(state), -1).any(1)
    return bool((own.all(1) | begun).all()) and not bool(torch.isnan(first).any())
