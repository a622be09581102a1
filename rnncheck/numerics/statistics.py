"""Medians and ratios of timings with their intervals.

Intervals come from order statistics (binomial; Conover, Practical Nonparametric Statistics, 3rd
ed., section 3.2): no shape of the noise is assumed. Successive samples of a busy machine resemble
each other, so that their number is reduced to the effective one before the interval is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrik

from rnncheck.results.noise import NORMAL

CONFIDENCE = 0.95  # of every interval that is shown: the custom of the field
FEW = 6  # fewer samples give no 95 %: their whole range has 1 - 2 / 2^n, 93.8 % of 5, 96.9 % of 6
# Autocorrelation is summed over at most this many lags. Chosen: the sum ends at the first lag that
# looks independent, and rounds that resemble each other over 32 make the interval wide already.
LAGS = 32

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A median with its interval, in the unit of the samples; ``effective`` is the number of
    independent samples."""

    median: float
    low: float
    high: float
    effective: float

    @property
    def relative(self) -> float:
        """Half the width over the median."""
        return (self.high - self.low) / 2 / self.median if self.median else float("inf")


def median_interval(samples: Sequence[float] | Floats, level: float = CONFIDENCE) -> Interval:
    """The median of ``samples`` ``[n]``; with fewer than ``FEW`` effective samples the interval is
    their whole range.

    Raises ValueError without samples.
    """
    values = np.sort(np.asarray(samples, dtype=np.float64))
    if values.size == 0:
        raise ValueError("a median needs at least one sample")
    independent = effective_size(np.asarray(samples, dtype=np.float64))
    low, high = _ranks(values.size, independent, level)
    return Interval(float(np.median(values)), float(values[low]), float(values[high]), independent)


def _ranks(count: int, independent: float, level: float) -> tuple[int, int]:
    """Indices of the order statistics that enclose the median, as for ``independent`` samples."""
    if independent < FEW:
        return 0, count - 1
    whole = int(independent)
    below = _quantile((1 - level) / 2, whole) - 1
    share = max(below, 0) / (whole - 1)  # position within the sorted samples
    low = int(np.floor(share * (count - 1)))
    return low, count - 1 - low


def _quantile(share: float, count: int) -> int:
    """Of the heads of ``count`` fair coins, as ``scipy.stats.binom.ppf``: importing that costs a
    command most of a second."""
    above = int(np.ceil(bdtrik(share, count, 0.5)))
    return above - 1 if above > 0 and bdtr(above - 1, count, 0.5) >= share else above


def effective_size(samples: Floats, *, cautious: bool = False) -> float:
    """How many independent samples are worth as much: n / (1 + 2 sum of autocorrelations).

    The sum runs over the initial positive correlations (Geyer 1992, "Practical Markov Chain Monte
    Carlo"), taken on ranks, so that one outlier does not hide it. Those that independent samples
    show by chance are left out; ``cautious`` counts them too, and what they are too small by in the
    mean, 1 / n (Kendall 1954, "Note on bias in the estimation of autocorrelation"): of few samples
    no other can be told.
    """
    count = samples.size
    if count < FEW or float(samples.max()) == float(samples.min()):
        return float(count)
    ranks = np.argsort(np.argsort(samples, kind="stable"), kind="stable").astype(np.float64)
    centred = ranks - ranks.mean()
    power = float(centred @ centred)
    total, bias = 0.0, 1 / count if cautious else 0.0
    by_chance = 0.0 if cautious else NORMAL / np.sqrt(count)
    for lag in range(1, min(LAGS, count // 3) + 1):
        correlation = float(centred[:-lag] @ centred[lag:]) / power + bias
        if correlation <= by_chance:
            break
        total += correlation
    return count / (1 + 2 * total)


def ratio_interval(
    candidate: Sequence[float] | Floats,
    reference: Sequence[float] | Floats,
    level: float = CONFIDENCE,
) -> Interval:
    """``reference / candidate``, round by round: above 1 the candidate is faster. Both ``[n]``,
    positive.

    The median of the logarithms is taken, so that the inverse question has the inverse answer.
    """
    upper = np.asarray(reference, dtype=np.float64)
    lower = np.asarray(candidate, dtype=np.float64)
    found = median_interval(np.log(upper) - np.log(lower), level)
    return Interval(
        float(np.exp(found.median)),
        float(np.exp(found.low)),
        float(np.exp(found.high)),
        found.effective,
    )


def spread(samples: Sequence[float] | Floats) -> float:
    """Interquartile range over the median: how unsteady single samples are."""
    low, middle, high = np.percentile(np.asarray(samples, dtype=np.float64), (25, 50, 75))
    return float((high - low) / middle) if middle else float("inf")


def drift(samples: Sequence[float] | Floats) -> float:
    """The median of the last third over that of the first, minus 1; 0 with fewer than nine
    samples."""
    values = np.asarray(samples, dtype=np.float64)
    third = values.size // 3
    if third < 3:
        return 0.0
    return float(np.median(values[-third:]) / np.median(values[:third]) - 1)
