"""Inputs that stand for a whole episode and are others in the training batch: hindsight gives its
steps another goal on purpose."""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import segments_of
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.numerics.difference import bits_differ

GOAL = "the batch has another goal for each episode than acting had: its outputs are others"


def relabelled(evidence: Evidence, sample: Sample) -> Tensor:
    """Steps ``[rows, steps]`` of segments in which an entry that the policy reads is one number, or
    one vector, throughout, was so while acting, and is another one."""
    result = torch.zeros_like(sample.known)
    for key in {*evidence.policy.reads} - {*evidence.policy.carry, *evidence.policy.flags}:
        given, column = sample.rows.get(key, None), sample.steps.column(key)
        if given is None or column is None or given.shape[2:] != column.shape[1:]:
            continue
        recorded = column[sample.ids.clamp_min(0)].to(given.dtype)
        other = bits_differ(given, recorded).reshape(*sample.known.shape, -1).any(-1)
        stays = _stays(sample, given) & _stays(sample, recorded)
        result |= _throughout(sample, other & stays)
    return result


def _stays(sample: Sample, value: Tensor) -> Tensor:
    """Steps that have what the one before them in their segment has."""
    same = torch.ones_like(sample.known)
    inside = sample.known[:, 1:] & sample.known[:, :-1]
    segments = segments_of(sample)
    inside &= segments[:, 1:] == segments[:, :-1]
    moved = bits_differ(value[:, 1:], value[:, :-1])
    moved = moved.reshape(*inside.shape, value[0, 0].numel()).any(-1)  # or no step is behind one
    same[:, 1:] = ~(moved & inside)
    return same


def _throughout(sample: Sample, mask: Tensor) -> Tensor:
    """Steps of segments with several known steps, at all of which the mask is true."""
    segments, result = segments_of(sample), torch.zeros_like(mask)
    for row in range(mask.shape[0]):
        for one in segments[row].unique():
            here = (segments[row] == one) & sample.known[row]
            if int(here.sum()) > 1 and bool(mask[row][here].all()):
                result[row] |= here
    return result
