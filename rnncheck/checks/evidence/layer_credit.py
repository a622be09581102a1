"""Which steps of single layers that act an action weighs: where another term of the loss uses the
actions rightly, all layers together do not tell."""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.credited_steps import SMALLEST, Credited, other_values
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.layer_gradients import layer_gradients, layers_that_act
from rnncheck.checks.evidence.loss_calls import each_sample
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.pipeline.keys import Key, tensor_keys

Told = list[tuple[int, Credited]]


def credited_by_layer(evidence: Evidence) -> list[tuple[Key, Told]]:
    """Of each action and each layer behind a memory that acts, what a change moves, with the number
    of the training batch; the start flags stay as they are."""
    found = dict[tuple[Key, str], Told]()
    for number, sample in each_sample(evidence):
        for key in set(evidence.env.actions) & set(tensor_keys(sample.rows)):
            for name, one in _in_batch(evidence, sample, key).items():
                found.setdefault((key, name), []).append((number, one))
    return [(key, told) for (key, _), told in found.items()]


def _in_batch(evidence: Evidence, sample: Sample, key: Key) -> dict[str, Credited]:
    changed, rows = other_values(evidence, sample, key)
    before = layer_gradients(evidence, sample, sample.td) if bool(changed.any()) else {}
    after = layer_gradients(evidence, sample, rows.reshape(sample.td.shape)) if before else {}
    return {
        name: Credited(key, changed, moved > SMALLEST * float(moved.max()), sample.valid & weighed)
        for name in before.keys() & after.keys() & layers_that_act(evidence, sample)
        for moved, weighed in [_moved(before[name], after[name])]
        if bool(moved.any())
    }


def _moved(old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """``[rows, steps]``: by how much the gradient of a step moves, and whether it has any."""
    size = [one.double().abs().nan_to_num().amax(-1) for one in (new - old, old, new)]
    return size[0], torch.maximum(size[1], size[2]) > 0
