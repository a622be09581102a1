"""A reset shows something of the episode before.

A filter over observations that a reset does not clear: the memory is reset, and leaks through what
is observed.
"""

from __future__ import annotations

from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, Remembered, carriers_of, remembering
from rnncheck.pipeline.keys import present
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.subject.subject import all_reads
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    first, states = parts.env.reset(), {key for one in carriers_of(parts) for key in one.keys}
    seen = present(first, sorted(all_reads(parts.policy) - states))
    keys = [key for key in seen if first.get(key).is_floating_point()]
    if not keys:
        raise CannotPlant("the policy reads no floating-point entry that a reset of the env gives")

    def show(last: Remembered, given: TensorDictBase) -> None:
        for key in keys:
            value, old = given.get(key, None), last.get(key)
            if value is not None and old is not None and value.shape == old.shape:
                given.set(key, (value + old) / 2)

    return Hooks(env=lambda env: remembering(env, keys, show))


FAULT = Fault(
    name="observation-survives-reset",
    stage=Stage.ENV,
    expects=("WR112",),
    plant=plant,
)
