"""Recurrent mode's outputs beside those of the isolated replay."""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.comparison import Mismatch, mismatches
from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.opening_states import opens_alone
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import recurrent_outputs
from rnncheck.checks.rule import CouldNotLook, Deferred
from rnncheck.numerics.difference import Difference
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.subject import Subject

MOST_SKIPPED = 3  # steps cut off the front to begin in the middle of a trajectory


def beginnings(evidence: Evidence, subject: Subject) -> list[tuple[Constructed, str]]:
    """The constructed batch as it is, and without its first steps, where a state can be given."""
    made = constructed(evidence, subject)
    found = [(made, "from a trajectory's start")]
    skip = min(first_lengths(made)) - 1
    if skip > 0 and not (subject.by_absence or opens_alone(subject)):
        cut = evidence.once(
            "batch from mid-trajectory of the",
            lambda: made.window(min(skip, MOST_SKIPPED)),
            subject.stage,
        )
        found.append((cut, "from the middle of a trajectory"))
    return found


def first_lengths(made: Constructed) -> list[int]:
    """How long the first segment of every row is."""
    rows = (made.starts[row].nonzero().flatten().tolist() for row in range(made.rows))
    return [[*begins, made.steps][1] for begins in rows]


def disagreement(
    evidence: Evidence, subject: Subject, made: Constructed
) -> tuple[Mismatch | None, int]:
    """The worst mismatch of one constructed batch and how many outputs were compared."""
    out = recurrent_outputs(evidence, subject, made)
    keys = comparable_outputs(evidence, subject, out)
    told = [key for key in keys if key in tensor_keys(made.truth)]
    if keys and not told:
        raise CouldNotLook(
            f"recurrent mode of the {subject.stage} gives nothing that single steps give as well"
        )
    numbers = [key for key in told if not bool(made.truth.get(key).isnan().any())]
    if keys and not numbers:
        raise Deferred(f"the {subject.stage}'s outputs are NaN in sequential mode already", "CL409")
    found = mismatches(out, made.truth, made.oracle, numbers)
    return (found[0] if found else None), len(numbers)


def diverges_at_starts(difference: Difference, starts: Tensor) -> bool:
    """Whether every row of ``starts`` ``[rows, steps]`` that differs at the first divergent step is
    reset there."""
    rows = torch.tensor(difference.first_rows)
    return bool(starts[rows, difference.first_step].all())
