"""The stored state does not survive the replay.

A storage that keeps observations, actions and rewards alone.
"""

from __future__ import annotations

from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, carriers_of, on_samples
from rnncheck.pipeline.plant.hooks import Parts
from rnncheck.results.model import Stage


def stateless(sample: TensorDictBase, parts: Parts) -> TensorDictBase:
    return sample.exclude(*(key for one in carriers_of(parts) for key in one.keys))


FAULT = Fault(
    name="state-lost-in-replay",
    stage=Stage.REPLAY,
    expects=("RP503", "RP504"),
    plant=on_samples(stateless),
)
