"""States that a script hands to its loss beside the batch: those that the rows of another batch
begin with are stored in that one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_items, tensor_keys
from rnncheck.pipeline.placing import on_cpu
from rnncheck.pipeline.subject.modes import called_in_mode, in_mode_of
from rnncheck.watching.forms.given_beside import given_with
from rnncheck.watching.forms.structures import Path, filled, leaves_in, records
from rnncheck.watching.forms.time_axis import time_axis
from rnncheck.watching.seen import Called

# Of the state's size, row by row: weights are updated from chunk to chunk, and another row's state
# is off by as much as it is large. Chosen.
_CLOSE = 0.2
Given = tuple[str, Path, Key]  # an argument, the way to a tensor in it, the entry that it is of


def with_states(loss: Called, acted: Sequence[TensorDictBase]) -> Called:
    """The loss, which takes states that it was given beside its batches from the batch itself; as
    it is where it was given none, or others than are stored there."""
    if not loss.inputs or len(loss.beside) < len(loss.inputs):
        return loss
    mode, inner = called_in_mode(loss.module)
    given, axis = given_with(inner), time_axis(loss.inputs[0], acted)
    found = [
        (name, path, key)
        for name, value in given.items()
        for path, one in leaves_in(value)
        if isinstance(one, Tensor) and (key := _stored_as(loss, name, path, axis)) is not None
    ]
    if not found:
        return loss
    return replace(loss, module=in_mode_of(mode, partial(run_from_states, inner, found, axis)))


def run_from_states(
    loss: partial[Any], states: Sequence[Given], axis: int, /, *batch: Any, **named: Any
) -> Any:
    """``loss`` on the batch, with the states that its rows begin with in the place of the arguments
    that held such."""
    td = batch[0] if batch else next(iter(named.values()))
    given = given_with(loss)
    ahead = list(given)[: len(loss.args)]
    for name in {name for name, _, _ in states}:
        parts = {path: _first(td, key, axis) for own, path, key in states if own == name}
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
        if all(_alike(one, _first(td, key, axis), _begins(td, axis)) for one, td in pairs):
            return key
    return None


def _handed_on(batch: TensorDictBase) -> list[Key]:
    keys = set(tensor_keys(batch))
    return [
        key
        for key, value in tensor_items(batch)
        if ("next", *key) in keys and value.is_floating_point()
    ]


def _first(batch: TensorDictBase, key: Key, axis: int) -> Tensor:
    value: Tensor = batch.get(key)
    return value.select(min(axis, batch.batch_dims - 1), 0)


def _begins(batch: TensorDictBase, axis: int) -> Tensor | bool:
    """Which rows begin with an episode: whatever state is handed over there is not read."""
    flags = [k for k in tensor_keys(batch) if k[0] != "next" and k[-1] == "is_init"]
    return _first(batch, flags[0], axis).flatten(1).any(1).cpu() if flags else False


def _alike(one: Tensor, other: Tensor, begins: Tensor | bool) -> bool:
    if one.shape != other.shape or one.ndim < 2:
        return False
    apart, size = (on_cpu(value).flatten(1).norm(dim=1) for value in (one - other, other))
    return bool(((apart <= _CLOSE * size) | begins).all())
