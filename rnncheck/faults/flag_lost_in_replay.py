"""The start flag does not survive the replay.

A storage or transform that selects the keys of a feed-forward policy.
"""

from __future__ import annotations

from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, flag_keys, needs_training
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "replay", "batch")
    keys = flag_keys(parts)
    return Hooks(sample=lambda sample: _without(sample, keys))


def _without(sample: TensorDictBase, keys: tuple[Key, ...]) -> TensorDictBase:
    return sample.exclude(*keys)


FAULT = Fault(
    name="flag-lost-in-replay",
    stage=Stage.REPLAY,
    expects=("RP503",),
    plant=plant,
)
