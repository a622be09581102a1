"""Whether training is given what was drawn while acting, such as a goal that is stored."""

from __future__ import annotations

from collections.abc import Set

import torch
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample, samples
from rnncheck.numerics.difference import gap
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.passes import run_recurrent
from rnncheck.pipeline.subject.subject import Subject, next_key

_CLOSE = 1e-3  # of the largest output: noise that is drawn anew moves far more


def is_given_what_was_drawn(evidence: Evidence, subject: Subject, noisy: Set[Key]) -> bool:
    """Whether recurrent mode gives on a training batch what was recorded of outputs that are random
    while acting: then it reads what was drawn."""
    own = {*subject.carry, *map(next_key, subject.carry), *evidence.env.actions}
    try:
        return any(_gives_the_recorded(subject, one, noisy - own) for one in samples(evidence))
    except Exception:  # the user's module may raise anything: other checks tell of it
        return False


def _gives_the_recorded(subject: Subject, sample: Sample, noisy: Set[Key]) -> bool:
    out = run_recurrent(subject, sample.td).reshape(sample.rows.shape)
    pairs = [
        (out.get(key), column)
        for key in sorted(noisy & set(tensor_keys(out)))
        if (column := sample.steps.column(key)) is not None
    ]
    told = bool(pairs) and bool(sample.known.any())
    return told and all(_alike(given, acted, sample) for given, acted in pairs)


def _alike(given: Tensor, acted: Tensor, sample: Sample) -> bool:
    there = acted[sample.ids[sample.known]]
    here = given[sample.known].reshape(there.shape)
    return bool(torch.all(gap(here, there) <= _CLOSE * float(there.abs().max())))
