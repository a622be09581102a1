"""Behind which step a training batch's next observations were seen: with n-step returns it is not
the step's own."""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.numerics.difference import bits_differ, features

LONGEST = 16  # steps that a next observation may lie ahead. Chosen, more than n-step returns have


def shown_next(evidence: Evidence, sample: Sample) -> Tensor:
    """The number of the recorded step, ``[rows, steps]``, behind which what the batch holds as next
    was seen: the step's own, or that of a later one in its trajectory, as with n-step returns."""
    own = sample.ids.clamp_min(0)
    keys = [key for key in observed(evidence, sample) if key[0] == "next"]
    pairs = [(sample.rows.get(key), sample.steps.column(key)) for key in keys]
    told = [(here, there) for here, there in pairs if there is not None]
    if any(here.shape[2:] != there.shape[1:] for here, there in told) or not told:
        return own
    result, at, missing = own.clone(), own, torch.ones_like(sample.known)
    for _ in range(LONGEST):
        same = torch.stack(
            [~features(bits_differ(here, there[at].to(here.dtype))).any(-1) for here, there in told]
        )
        here = missing & same.all(0)
        result, missing = torch.where(here, at, result), missing & ~here
        if not bool(missing.any()):
            break
        at = sample.steps.successor[at].clamp_min(0)
    return result
