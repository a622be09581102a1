"""Two rows of one group, compared in the rounds that both were in."""

from __future__ import annotations

import math

from rnncheck.numerics.statistics import ratio_interval
from rnncheck.results.cells import CellResult, Ratio
from rnncheck.results.noise import widened


def paired(candidate: CellResult, reference: CellResult) -> Ratio | None:
    """How many times faster the candidate is; None where they share no round.

    The interval is that of the rounds, widened by what lies between one process and the next.
    """
    mine = dict(zip(candidate.samples.rounds, candidate.samples.wall, strict=True))
    other = dict(zip(reference.samples.rounds, reference.samples.wall, strict=True))
    shared = sorted(set(mine) & set(other))
    if not shared:
        return None
    found = ratio_interval([mine[r] for r in shared], [other[r] for r in shared])
    half = widened(math.log(found.high / found.low) / 2)
    middle = found.median
    return Ratio(
        reference.cell.variant.label, middle, middle * math.exp(-half), middle * math.exp(half)
    )
