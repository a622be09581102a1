"""Tools for mending what the networks of a pipeline that is built again do inside its loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.keys import Key, present
from rnncheck.pipeline.plant.hooks import Hooks
from rnncheck.pipeline.plant.module_changes import (
    Call,
    carry_of,
    is_next_pass,
    mode,
    wrap,
)
from rnncheck.pipeline.subject.subject import carriers, next_key

Inner = Callable[[nn.Module, Call, TensorDictBase, TensorDictBase], TensorDictBase]


@dataclass
class _Inside:
    """The batch that the loss, or the estimator, is called on while it runs."""

    batch: TensorDictBase | None = None

    def __deepcopy__(self, memo: object) -> _Inside:
        """Itself: a copied estimator's networks look at the one of the original's."""
        return self

    def run(self, call: Callable[[TensorDictBase], Any], td: TensorDictBase) -> Any:
        self.batch = td.clone()  # as it was given: the call may overwrite its entries
        try:
            return call(td)
        finally:
            self.batch = None


def inside_training(inner: Inner, *, parts: bool = False) -> Hooks:
    """``inner(module, call, td, batch)`` in the place of every call of a carrier of state inside
    the loss or the estimator that is given steps of the whole ``batch``; with ``parts`` also of
    those that are given some of them."""
    inside = _Inside()

    def around(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
        batch = inside.batch
        if batch is None or not (parts or td.batch_size == batch.batch_size):
            return call(td)
        return inner(module, call, td, batch)

    def change(network: nn.Module) -> nn.Module:
        for carrier in carriers(network):
            wrap(carrier.module, around)
        return network

    def called(function: Any) -> Any:
        if isinstance(function, nn.Module):
            return wrap(function, lambda _module, call, td: inside.run(call, td))
        return lambda td: inside.run(function, td)

    return Hooks(policy=change, critic=change, loss=called, estimator=called)


def keeping_next(
    module: nn.Module, call: Call, td: TensorDictBase, _batch: TensorDictBase
) -> TensorDictBase:
    """The call with ("next", state) as it was before it."""
    kept = _next_states(module, td)
    out = call(td)
    for key, value in kept.items():
        out.set(key, value)
    return out


def from_collected(
    module: nn.Module, call: Call, td: TensorDictBase, batch: TensorDictBase
) -> TensorDictBase:
    """A pass over the next steps that starts from the batch's ("next", state)."""
    if is_next_pass(module, td, batch):
        for key, value in _next_states(module, batch).items():
            td.set(key[1:], value)
    return call(td)


def over_time(
    _module: nn.Module, call: Call, td: TensorDictBase, _batch: TensorDictBase
) -> TensorDictBase:
    """The call in recurrent mode, whatever is set around it."""
    with mode(True):
        return call(td)


@dataclass
class WithGraph:
    """Hands a state on with its graph, where a call is given the numbers that the call before it
    left, and no graph."""

    batch: TensorDictBase | None = None
    states: dict[Key, Tensor] = field(default_factory=dict)

    def __call__(
        self, module: nn.Module, call: Call, td: TensorDictBase, batch: TensorDictBase
    ) -> TensorDictBase:
        if batch is not self.batch:
            self.batch, self.states = batch, {}
        for key in carry_of(module):
            left, given = self.states.get(key), td.get(key, None)
            if left is not None and _is_cut_off(given, left):
                td.set(key, left)
        out = call(td)
        for key in carry_of(module):
            self.states[key] = out.get(next_key(key))
        return out


def _is_cut_off(given: Any, left: Tensor) -> bool:
    """``given`` are the numbers of ``left`` without its graph."""
    if not isinstance(given, Tensor) or given.requires_grad or not left.requires_grad:
        return False
    return given.shape == left.shape and torch.equal(given, left)


def both(first: Inner, second: Inner) -> Inner:
    """``second`` around each call, ``first`` around that."""

    def inner(
        module: nn.Module, call: Call, td: TensorDictBase, batch: TensorDictBase
    ) -> TensorDictBase:
        return first(module, lambda one: second(module, call, one, batch), td, batch)

    return inner


def _next_states(module: nn.Module, td: TensorDictBase) -> dict[Key, Any]:
    keys = present(td, [next_key(key) for key in carry_of(module)])
    return {key: td.get(key).clone() for key in keys}
