"""Means of paired differences and statistics of curves, with their intervals.

Means have Student's t interval on the differences of pairs that share a seed (Colas, Sigaud and
Oudeyer 2019, "A Hitchhiker's Guide to Statistical Comparisons of Reinforcement Learning
Algorithms"). All else has the percentile bootstrap over episodes, which are independent where their
steps are not (Efron and Tibshirani 1993, chapters 8 and 13).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.stats import t

from rnncheck.numerics.statistics import CONFIDENCE, Floats
from rnncheck.results.memory import Estimated

# Of a percentile interval at 95 %: chosen, ten draws lie beyond either end.
_DRAWS = 400


def mean_difference(differences: Floats, scale: float, level: float = CONFIDENCE) -> Estimated:
    """The mean of ``differences`` ``[n]`` (n of at least 2) with its interval.

    Where all of them agree, another value may still come with a probability of
    1 - (1 - level)^(1/n) (the rule of three), and be as large as ``scale``.
    """
    count, middle = differences.size, float(differences.mean())
    deviation = float(differences.std(ddof=1))
    if deviation == 0.0:
        half = scale * (1 - (1 - level) ** (1 / count))
    else:
        half = float(t.ppf((1 + level) / 2, count - 1)) * deviation / math.sqrt(count)
    return Estimated(middle, middle - half, middle + half)


def bootstrapped(
    episodes: np.ndarray[tuple[int], np.dtype[np.int64]],
    statistic: Callable[[np.ndarray[tuple[int], np.dtype[np.int64]]], float],
    level: float = CONFIDENCE,
) -> tuple[float, float]:
    """The interval of ``statistic``, which gets row numbers; ``episodes`` ``[rows]`` says to which
    episode each row belongs. Draws in which it is not finite count as infinitely large."""
    generator = np.random.default_rng(0)
    names = np.unique(episodes)
    rows = [np.flatnonzero(episodes == name) for name in names]
    drawn = []
    for _ in range(_DRAWS):
        chosen = generator.integers(0, len(names), len(names))
        drawn.append(statistic(np.concatenate([rows[i] for i in chosen])))
    values = np.sort(np.nan_to_num(np.asarray(drawn), nan=np.inf, posinf=np.inf))
    low = math.floor((1 - level) / 2 * (_DRAWS - 1))
    return float(values[low]), float(values[_DRAWS - 1 - low])
