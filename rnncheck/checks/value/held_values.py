"""Values held against those of the sequential run: which steps count, and by how much they
differ."""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.burn_in_by_loss import positions
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import CouldNotLook
from rnncheck.checks.value.estimates import Values, ended, valuing
from rnncheck.numerics.difference import gap
from rnncheck.pipeline.keys import Key


def since_start(
    evidence: Evidence, sample: Sample, name: str | Key, *, following: bool = False
) -> Tensor:
    """Steps whose value can be that of the sequential run, by design.

    A critic that does not run while collecting starts every batch from its initial state: where it
    is not collected, steps count whose trajectory begins inside their segment. GAE(shifted) hands
    on the start flag of a row's last step to the one after it: a module that starts anew there,
    and does not take the state that is stored beside it, has forgotten that one step.
    """
    subject = valuing(evidence, name)
    stored = [sample.steps.column(key) for key in subject.carry]
    begun, result = sample.trajectory_start(), torch.ones_like(sample.valid)
    if not all(value is not None and bool((value != 0).any()) for value in stored):
        result[:, 0] = begun[:, 0]
        for t in range(1, result.shape[1]):
            result[:, t] = begun[:, t] | (result[:, t - 1] & sample.follows[:, t])
    if following:
        result[:, -1] &= ~(begun | sample.marked)[:, -1]
    return result


def against(
    sample: Sample, seen: Tensor, values: Values, *, following: bool
) -> tuple[Tensor, Tensor, float]:
    """Absolute differences and which steps count, ``[rows, steps]``, and the scale of the
    values."""
    if following:
        want, has = values.following(sample)
        mask = sample.known & has & ~ended(sample, "done")
    else:
        ids = sample.ids.clamp_min(0)
        want, mask = values.value[ids], sample.known & values.has[ids]
    if want.numel() != seen.numel():
        raise CouldNotLook("the values have another shape than the sequential run's")
    gaps = gap(seen.reshape(want.shape), want)
    gaps = (gaps.flatten(2).amax(-1) if gaps.ndim > 2 else gaps) * mask
    return gaps, mask, max(float(values.value.abs().max()), 1e-6)


def fading(sample: Sample, gaps: Tensor) -> int:
    """Steps since a slice's start until the mean difference has fallen to a tenth of its first
    size."""
    since = positions(sample)
    means = [float(gaps[since == t].mean()) for t in range(int(since.max()) + 1)]
    largest = max(means)
    peak = means.index(largest)
    return next((t for t in range(peak, len(means)) if means[t] <= 0.1 * largest), len(means))
