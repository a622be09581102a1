"""Rows of one group, compared in the rounds that they share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rnncheck.numerics.sequential import running_interval
from rnncheck.numerics.statistics import Floats, ratio_interval
from rnncheck.numerics.stopping import corrected
from rnncheck.results.cells import CellResult, Ratio, Samples
from rnncheck.results.noise import BETWEEN, NORMAL, widened

# What lies between processes widens a logarithmic ratio's interval to this half at least. Where the
# rounds' own half is below CLOSE times it, the whole is within 12 % of the least that it can be.
LEAST = NORMAL * BETWEEN
CLOSE = 0.5


def paired(candidate: CellResult, reference: CellResult) -> Ratio | None:
    """How many times faster the candidate is; None where they share no round.

    The interval is that of the rounds, widened by what lies between one process and the next. Where
    there are enough of them it holds whenever the rounds ended.
    """
    mine, other = _shared(candidate.samples, reference.samples)
    if not mine.size:
        return None
    found = ratio_interval(mine, other)
    at_any_time = running_interval(np.log(other) - np.log(mine))
    half = math.log(found.high / found.low) / 2
    if math.isfinite(at_any_time.low):
        half = max(half, (at_any_time.high - at_any_time.low) / 2)
    half, middle = widened(half), found.median
    return Ratio(
        reference.cell.variant.label, middle, middle * math.exp(-half), middle * math.exp(half)
    )


def settled(rows: Sequence[Samples]) -> list[bool]:
    """Whether more rounds would say more of each row: whether it is slower than the fastest, or
    as fast as one process can tell.

    The interval of each ratio holds at every look (``running_interval``), and all of them together
    (Bonferroni): the fastest row is called slower than another in at most 5 % of all groups. What
    is clearly slower need not be timed any more (successive elimination: Even-Dar, Mannor & Mansour
    2006, "Action elimination and stopping conditions for the multi-armed bandit and reinforcement
    learning problems").
    """
    most = max(len(row.rounds) for row in rows)
    fastest = min(
        (row for row in rows if len(row.rounds) == most), key=lambda row: float(np.median(row.wall))
    )
    level = corrected(len(rows) - 1)
    told = [row is fastest or _told_apart(row, fastest, level) for row in rows]
    return [all(told) if row is fastest else one for row, one in zip(rows, told, strict=True)]


def _told_apart(slow: Samples, fast: Samples, level: float) -> bool:
    """Whether one row is clearly slower, or about as fast as another."""
    mine, other = _shared(slow, fast)
    if not mine.size:
        return False
    found = running_interval(np.log(mine) - np.log(other), level)
    if not math.isfinite(found.low):
        return False
    slower = found.median - widened(found.median - found.low) > 0
    return slower or found.high - found.low <= 2 * CLOSE * LEAST


def _shared(one: Samples, other: Samples) -> tuple[Floats, Floats]:
    """Both rows' seconds in the rounds that both were in, in their order."""
    mine = dict(zip(one.rounds, one.wall, strict=True))
    theirs = dict(zip(other.rounds, other.wall, strict=True))
    rounds = sorted(mine.keys() & theirs.keys())
    return np.array([mine[r] for r in rounds]), np.array([theirs[r] for r in rounds])
