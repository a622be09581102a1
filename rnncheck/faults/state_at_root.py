"""The new state overwrites the old one instead of standing under `next`.

The module's out_keys name `h` where `("next", "h")` was meant.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import Fault, carriers_of
from rnncheck.pipeline.keys import Key, present
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.pipeline.plant.module_changes import Around, Call, rename_keys, wrap
from rnncheck.pipeline.subject.subject import carriers, next_key
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    carriers_of(parts)
    return Hooks(policy=at_root)


def at_root(network: nn.Module) -> nn.Module:
    for carrier in carriers(network):
        keys = {next_key(key): key for key in carrier.keys}
        rename_keys(network, written=keys)
        wrap(carrier.module, _moving(keys))
    return network


def _moving(keys: dict[Key, Key]) -> Around:
    def move(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
        out = call(td)
        for new in present(out, keys):  # of a module that does not go by its out_keys
            out.set(keys[new], out.get(new))
            out.del_(new)
        return out

    return move


FAULT = Fault(
    name="state-at-root",
    stage=Stage.POLICY,
    expects=("WR107", "WR101", "CL402"),
    plant=plant,
)
