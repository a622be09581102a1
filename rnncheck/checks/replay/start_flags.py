"""Start flags that a training batch has lost."""

from __future__ import annotations

import torch

from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.results.model import Where


def lost_start(sample: Sample, number: int) -> Where | None:
    """The first start inside a row whose flag is not true any more."""
    if sample.flag is None:
        return None
    inside = torch.ones_like(sample.valid)
    inside[:, 0] = False
    recorded = sample.steps.recording
    was = torch.zeros(len(sample.steps.places), dtype=torch.bool)
    for index, (batch, row, step) in enumerate(sample.steps.places):
        flag = recorded.flag(recorded.batches[batch])
        was[index] = flag is not None and bool(flag[row, step])
    lost = was[sample.ids.clamp_min(0)] & sample.known & inside & ~sample.flag
    if not bool(lost.any()):
        return None
    row, step = lost.nonzero()[0].tolist()
    return Where((number, row), step, first_step=step)
