"""Whether a rollout of a plain loop goes on with the states that the one before it ended in."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.watching.forms.plain_calls import FLAG, PlainStep, ToldCall
from rnncheck.watching.forms.plain_columns import columns_of
from rnncheck.watching.forms.plain_policy import PlainPolicy
from rnncheck.watching.forms.plain_record import steps_recorded
from rnncheck.watching.forms.shown_entries import shown_keys
from rnncheck.watching.forms.storages import DONE


def states_at_the_join(
    before: Sequence[PlainStep], whole: TensorDictBase, told: ToldCall, policy: PlainPolicy
) -> TensorDictBase | None:
    """By ``collected`` and ``given`` the states that the steps ``before`` ended in, and that the
    ``whole`` ``[rows, steps]`` begins with, of the rows in which the env goes on; None where none
    does."""
    if not before or before[-1].call.function is None:  # or its action was a random one
        return None
    steps = list(before[-1:])
    last = steps_recorded(steps, columns_of(steps, True), told, policy, before[-2:-1])[:, -1]
    first, keys = whole[:, 0], set(tensor_keys(last))
    states = [key for key in told.carry if ("next", *key) in keys]
    seen = [key for key in shown_keys(whole) if ("next", *key) in keys]
    goes_on = ~last.get(DONE).reshape(-1)
    for key in seen:
        goes_on &= _same(last.get(("next", *key)), first.get(key))
    if not states or not seen or not bool(goes_on.any()):
        return None
    rows: dict[Key, Tensor] = {}
    for key in states:
        rows["collected", *key] = last.get(("next", *key))[goes_on]
        rows["given", *key] = first.get(key)[goes_on]
    return TensorDict(rows, [int(goes_on.sum())]).clone()


def states_at_the_opening(
    given: TensorDictBase, whole: TensorDictBase, told: ToldCall
) -> TensorDictBase | None:
    """By ``collected`` and ``given`` the states that the steps ``whole`` began with, and that a
    training batch of them begins with, of the rows that go on with an episode; None where that
    begins with other steps, or is given no state."""
    mine, theirs = whole[:, 0], given[:, 0]
    states = [key for key in told.carry if {key} <= {*tensor_keys(mine)} & {*tensor_keys(theirs)}]
    goes_on = ~mine.get(FLAG).reshape(-1)
    if not states or len(mine) != len(theirs) or not bool(goes_on.any()):
        return None
    for key in shown_keys(whole):
        one, other = mine.get(key), theirs.get(key, None)
        if other is not None and not bool(_same(one, other.to(one.dtype)).all()):
            return None
    rows: dict[Key, Tensor] = {}
    for key in states:
        rows["collected", *key] = mine.get(key)[goes_on]
        rows["given", *key] = theirs.get(key)[goes_on]
    return TensorDict(rows, [int(goes_on.sum())]).clone()


def _same(one: Tensor, other: Tensor) -> Tensor:
    """``[rows]``"""
    if one.shape != other.shape:
        return torch.zeros(len(one), dtype=torch.bool)
    return (one == other).reshape(len(one), -1).all(1)
