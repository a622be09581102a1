"""Policy and critic keep their states under the same key.

Two recurrent modules built with the same default keys.
"""

from __future__ import annotations

from torch import nn

from rnncheck.faults.fault import Fault, carriers_of
from rnncheck.pipeline.hooks import Hooks, NotApplicable, Parts
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.subject import Carrier, carriers, next_key
from rnncheck.pipeline.tamper import rename_keys, stock_shapes
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    mine = carriers_of(parts)[0]
    others = [] if parts.critic is None else carriers(parts.critic)
    for other in others:
        if other.module is not mine.module and _alike(parts, mine, other):
            return Hooks(critic=lambda critic: _renamed(critic, mine.keys))
    raise NotApplicable("no second recurrent module with states of the same shape")


def _alike(parts: Parts, mine: Carrier, other: Carrier) -> bool:
    if len(mine.keys) != len(other.keys):
        return False
    known = stock_shapes(mine.module), stock_shapes(other.module)
    if all(known):
        return known[0] == known[1]
    first = parts.env.reset()
    states = [first.get(key, None) for key in (*mine.keys, *other.keys)]
    return len({None if state is None else state.shape for state in states}) == 1


def _renamed(network: nn.Module, keys: tuple[Key, ...]) -> nn.Module:
    for carrier in carriers(network):
        pairs = dict(zip(carrier.keys, keys, strict=False))
        rename_keys(network, pairs, {next_key(a): next_key(b) for a, b in pairs.items()})
    return network


FAULT = Fault(
    name="shared-key",
    stage=Stage.POLICY,
    expects=("WR106",),
    plant=plant,
)
