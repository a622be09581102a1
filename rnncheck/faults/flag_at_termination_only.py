"""A truncated episode's successor begins without a start flag.

A flag made of `terminated` where `done` was meant. Every episode is truncated early, so that it
happens.
"""

from __future__ import annotations

from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, Remembered, flag_keys, remembering
from rnncheck.pipeline.plant.env_changes import shortened
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage

_STEPS = 9  # of an episode: a batch of 32 steps and more then holds a few truncated ones
ENDED = ("terminated",)


def plant(parts: Parts) -> Hooks:
    keys = flag_keys(parts)

    def lower(last: Remembered, given: TensorDictBase) -> None:
        for key in keys if ENDED in last else ():
            flag = given.get(key)
            given.set(key, flag & last[ENDED].reshape(flag.shape))

    return Hooks(env=lambda env: remembering(shortened(env, _STEPS), [ENDED], lower))


FAULT = Fault(
    name="flag-at-termination-only",
    stage=Stage.ENV,
    expects=("WR109", "CL405"),
    plant=plant,
)
