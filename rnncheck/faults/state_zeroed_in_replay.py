"""A slice starts from zeros where the trajectory had a state.

A replay transform that primes every slice.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, carriers_of, on_samples
from rnncheck.pipeline.keys import present
from rnncheck.pipeline.plant.hooks import Parts
from rnncheck.results.model import Stage


def zeroed(sample: TensorDictBase, parts: Parts) -> TensorDictBase:
    for key in present(sample, [key for one in carriers_of(parts) for key in one.keys]):
        sample.set(key, torch.zeros_like(sample.get(key)))
    return sample


FAULT = Fault(
    name="state-zeroed-in-replay",
    stage=Stage.REPLAY,
    expects=("RP504", "RP507"),
    plant=on_samples(zeroed),
)
