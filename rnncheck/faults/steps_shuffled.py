"""Single steps are drawn at random and taken for a time axis.

`rb.extend(data.reshape(-1))` with a sampler that draws steps, in front of a recurrent loss.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, on_samples
from rnncheck.pipeline.plant.hooks import Parts
from rnncheck.results.model import Stage


def _shuffled(sample: TensorDictBase, parts: Parts) -> TensorDictBase:
    order = torch.randperm(sample.shape[-1], generator=torch.Generator().manual_seed(0))
    return sample[..., order]


FAULT = Fault(
    name="steps-shuffled",
    stage=Stage.REPLAY,
    expects=("RP502", "RP501", "LS702"),
    plant=on_samples(_shuffled),
)
