"""Tools for mending what the networks of a pipeline that is built again do inside its loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensordict import TensorDictBase
from torch import nn

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

    def run(self, call: Callable[[TensorDictBase], Any], td: TensorDictBase) -> Any:
        self.batch = td.clone()  # as it was given: the call may overwrite its entries
        try:
            return call(td)
        finally:
            self.batch = None


def inside_training(inner: Inner) -> Hooks:
    """``inner(module, call, td, batch)`` in the place of every call of a carrier of state inside
    the loss or the estimator that is given steps of the whole ``batch``."""
    inside = _Inside()

    def around(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
        batch = inside.batch
        if batch is None or td.batch_size != batch.batch_size:
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
