"""Two rows of one group, compared in the rounds that both were in."""

from __future__ import annotations

from rnncheck.numerics.statistics import ratio_interval
from rnncheck.results.cells import CellResult, Ratio


def paired(candidate: CellResult, reference: CellResult) -> Ratio | None:
    """How many times faster the candidate is; None where they share no round."""
    mine = dict(zip(candidate.samples.rounds, candidate.samples.wall, strict=True))
    other = dict(zip(reference.samples.rounds, reference.samples.wall, strict=True))
    shared = sorted(set(mine) & set(other))
    if not shared:
        return None
    found = ratio_interval([mine[r] for r in shared], [other[r] for r in shared])
    return Ratio(reference.cell.variant, found.median, found.low, found.high)
