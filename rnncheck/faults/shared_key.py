"""Two recurrent modules keep their states under the same key.

Policy and critic, or two layers, built with the same default keys.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from rnncheck.faults.fault import Fault, carriers_of
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.module_changes import rename_keys
from rnncheck.pipeline.subject.subject import Carrier, carriers, next_key
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    mine, *more = carriers_of(parts)
    theirs = [] if parts.critic is None else carriers(parts.critic)
    for other in _others(mine, theirs):
        return Hooks(critic=_renaming(other, mine))
    for other in _others(mine, more):
        return Hooks(policy=_renaming(other, mine))
    raise CannotPlant("there is no second recurrent module")


def _others(mine: Carrier, found: list[Carrier]) -> list[Carrier]:
    return [o for o in found if o.module is not mine.module and not set(o.keys) & set(mine.keys)]


def _renaming(other: Carrier, mine: Carrier) -> Callable[[nn.Module], nn.Module]:
    read = dict(zip(other.keys, mine.keys, strict=False))  # a GRU's state stands for an LSTM's h
    written = {next_key(old): next_key(new) for old, new in read.items()}

    def renamed(network: nn.Module) -> nn.Module:
        rename_keys(network, read, written)
        return network

    return renamed


FAULT = Fault(
    name="shared-key",
    stage=Stage.POLICY,
    expects=("WR106",),
    plant=plant,
)
