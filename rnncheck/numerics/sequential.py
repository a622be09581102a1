"""A median's interval that holds at every look, so that one may stop at any of them.

The number of values below the true median is that of heads of a fair coin. Mixed over all other
coins, its likelihood ratio is a martingale, ``2^n / ((n + 1) C(n, s))`` for ``s`` heads of ``n``,
which with probability ``level`` never reaches ``1 / (1 - level)`` (Ville's inequality; Robbins
1970, "Statistical methods related to the law of the iterated logarithm", section 4; for quantiles
Howard & Ramdas 2022, "Sequential estimation of quantiles with applications to A/B testing and
best-arm identification"). The interval is what that coin does not refute.

Rounds that resemble each other count for less, as in ``statistics``; that it still holds then is
tested by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rnncheck.numerics.statistics import CONFIDENCE, Floats, Interval, effective_size


def running_interval(values: Sequence[float] | Floats, level: float = CONFIDENCE) -> Interval:
    """The median of ``values`` ``[n]``, in the order in which they came; unbounded while they are
    too few.

    Raises ValueError without values.
    """
    given = np.asarray(values, dtype=np.float64)
    if given.size == 0:
        raise ValueError("a median needs at least one value")
    ordered, independent = np.sort(given), effective_size(given, cautious=True)
    refuted = _refuted(independent, level)
    middle = float(np.median(ordered))
    if refuted is None:
        return Interval(middle, -math.inf, math.inf, independent)
    low = int(refuted / independent * ordered.size)
    return Interval(middle, float(ordered[low]), float(ordered[-1 - low]), independent)


def _refuted(count: float, level: float) -> int | None:
    """The most heads below half of ``count`` at which the coin is refuted; None where no number
    is."""
    needed = -math.log(1 - level)
    heads = None
    for candidate in range(int(count / 2) + 1):
        if _log_martingale(count, candidate) < needed:
            break
        heads = candidate
    return heads


def _log_martingale(count: float, heads: float) -> float:
    chosen = math.lgamma(count + 1) - math.lgamma(heads + 1) - math.lgamma(count - heads + 1)
    return count * math.log(2) - math.log(count + 1) - chosen
