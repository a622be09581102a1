"""States that a script hands to its loss beside the batch: those that the rows of another batch
begin with are stored in that one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_items, tensor_keys
from rnncheck.pipeline.placing import on_cpu
from rnncheck.pipeline.subject.modes import called_in_mode, in_mode_of
from rnncheck.watching.forms.given_beside import given_with
from rnncheck.watching.forms.structures import Path, filled, leaves_in, records
from rnncheck.watching.forms.time_axis import time_axis
from rnncheck.watching.seen import Called

# Row by row, of the state's size and of what the first step changes of it: weights are updated from
# chunk to chunk; another row's state, or that of the step beside, is farther off. Chosen.
_CLOSE, _OF_A_STEP, _ROUNDED = 0.2, 0.5, 1e-4
HandedState = tuple[
    str, Path, Key
]  # an argument, the way to a tensor in it, the entry that it is of


def with_states(loss: Called, acted: Sequence[TensorDictBase]) -> Called:
    """The loss, which takes states that it was given beside its batches from the batch itself; as
    it is where it was given none, or others than are stored there."""
    if not loss.inputs or len(loss.beside) < len(loss.inputs):
        return loss
    mode, inner = called_in_mode(loss.module)
    found, axis = states_handed(loss, acted)
    if not found:
        return loss
    return replace(loss, module=in_mode_of(mode, partial(run_from_states, inner, found, axis)))


def states_handed(loss: Called, acted: Sequence[TensorDictBase]) -> tuple[list[HandedState], int]:
    """What it was given beside its batches that is the state which their rows begin with, and the
    dimension of time."""
    axis = time_axis(loss.inputs[0], acted)
    found = [
        (name, path, key)
        for name, value in given_with(called_in_mode(loss.module)[1]).items()
        for path, one in leaves_in(value)
        if isinstance(one, Tensor) and (key := _stored_as(loss, name, path, axis)) is not None
    ]
    return found, axis


def run_from_states(
    loss: partial[Any], states: Sequence[HandedState], axis: int, /, *batch: Any, **named: Any
) -> Any:
    """``loss`` on the batch, with the states that its rows begin with in the place of the arguments
    that held such."""
    td = batch[0] if batch else next(iter(named.values()))
    given = given_with(loss)
    ahead = list(given)[: len(loss.args)]
    for name in {name for name, _, _ in states}:
        parts = {path: first_of(td, key, axis) for own, path, key in states if own == name}
        given[name] = filled(given[name], parts, records)
    rest = {name: value for name, value in given.items() if name not in ahead}
    return loss.func(*(given[name] for name in ahead), *batch, **rest, **named)


def _stored_as(loss: Called, name: str, path: Path, axis: int) -> Key | None:
    """The entry whose first step the argument was at every call; zeros alone tell nothing."""
    told = [dict(leaves_in(one.get(name))).get(path) for one in loss.beside[: len(loss.inputs)]]
    states = [one for one in told if isinstance(one, Tensor) and one.is_floating_point()]
    if len(states) < len(loss.inputs) or not any(bool((one != 0).any()) for one in states):
        return None
    for key in _handed_on(loss.inputs[0]):
        pairs = zip(states, loss.inputs, strict=True)
        if all(_is_of(one, td, key, axis) for one, td in pairs):
            return key
    return None


def _handed_on(batch: TensorDictBase) -> list[Key]:
    keys = set(tensor_keys(batch))
    return [
        key
        for key, value in tensor_items(batch)
        if ("next", *key) in keys and value.is_floating_point()
    ]


def first_of(batch: TensorDictBase, key: Key, axis: int) -> Tensor:
    """The entry at the rows' first steps."""
    value: Tensor = batch.get(key)
    return value.select(min(axis, batch.batch_dims - 1), 0)


def begins_anew(batch: TensorDictBase, axis: int) -> Tensor | bool:
    """Which rows begin with an episode: whatever state is handed over there is not read."""
    flags = [k for k in tensor_keys(batch) if k[0] != "next" and k[-1] == "is_init"]
    return first_of(batch, flags[0], axis).flatten(1).any(1).cpu() if flags else False


def _is_of(state: Tensor, batch: TensorDictBase, key: Key, axis: int) -> bool:
    """Whether it is the entry's at the first step of each row, and not that of a step beside it."""
    stored, after = first_of(batch, key, axis), first_of(batch, ("next", *key), axis)
    if state.shape != stored.shape or state.ndim < 2:
        return False
    apart, size, step = (
        on_cpu(value).flatten(1).norm(dim=1) for value in (state - stored, stored, after - stored)
    )
    limit = torch.maximum(_ROUNDED * size, torch.minimum(_CLOSE * size, _OF_A_STEP * step))
    return bool(((apart <= limit) | begins_anew(batch, axis)).all())
