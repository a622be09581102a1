"""A reset shows something of the episode before.

A filter over observations, or a last observation, that a reset does not clear: the memory is reset,
and leaks through what is observed.
"""

from __future__ import annotations

from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, Remembered, carriers_of, remembering
from rnncheck.pipeline.keys import Key, present
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.subject.subject import all_reads
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    first, states = parts.env.reset(), {key for one in carriers_of(parts) for key in one.keys}
    seen = present(first, sorted(all_reads(parts.policy) - states))
    keys = [key for key in seen if _can_last(first, key)]
    if not keys:
        raise CannotPlant("the policy reads no number of the env's that could outlast a reset")

    def show(last: Remembered, given: TensorDictBase) -> None:
        for key in keys:
            value, old = given.get(key, None), last.get(key)
            if value is not None and old is not None and value.shape == old.shape:
                given.set(key, (value + old) / 2 if value.is_floating_point() else old)

    return Hooks(env=lambda env: remembering(env, keys, show))


def _can_last(first: TensorDictBase, key: Key) -> bool:
    value = first.get(key)
    return bool(value.is_floating_point() or value.element_size() > 1)  # no flag, no raw pixel


FAULT = Fault(
    name="observation-survives-reset",
    stage=Stage.ENV,
    expects=("WR112",),
    plant=plant,
)
