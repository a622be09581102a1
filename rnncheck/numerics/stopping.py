"""Whether one side is slower than another, over fresh pairs of processes, stopping as soon as that
is clear.

One process on each side gives one logarithmic ratio. Their mean is judged by a moderated t interval
(Smyth 2004, "Linear models and empirical Bayes methods", equation 4): the variance of few pairs is
shrunk towards the one that is known of pairs in general, so that three pairs that agree by luck are
not believed too far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.special import stdtrit

from rnncheck.numerics.statistics import CONFIDENCE
from rnncheck.results.noise import BETWEEN

_SHOWN_LEVEL = CONFIDENCE  # of the intervals that are shown
# Degrees of freedom that the known variance is worth: 4000 gates drawn from the pairs that are told
# of below call 0.07 %, 0.10 % and 0.38 % of A/A slower with 1, 4 and 16, and find 99.6, 99.6 and
# 99.3 % of 5 % in 7.4, 6.1 and 4.9 pairs. Four cost little error and save pairs.
KNOWN = 4.0
# Of the interval that must be below the allowance: what is 5 % slower passes in about 1 gate of 200
# under load.
PASSING = 0.80
# Even: who starts first changes from pair to pair. With four a quiet gate takes half a minute; with
# 16 at most instead of 12, and the levels below, fewer gates are wrong either way.
MIN_PAIRS, MAX_PAIRS = 4, 16


class Measure(StrEnum):
    """What a pair compares. Wall time is what users wait for; CPU time bears a busy machine
    better."""

    WALL = "wall time"
    CPU = "CPU time"


# Of the interval that must be clear before anything is called slower: at one look 0.55 % of error
# for each cell, if the estimate did not also have to be above the allowance. Drawn again and again
# from 42 pairs that were measured on loaded machines (benchmarks/gate_levels.py), all looks
# together call 0.07 % of A/A slower, and find 99.4 % of 5 %; with 99.8 %, 98 % and 12 pairs it was
# 0.12 % and 99.2 %.
STRICT: dict[Measure, float] = {Measure.WALL: 0.999, Measure.CPU: 0.99}


class PairsAnswer(StrEnum):
    """What the pairs so far say."""

    SLOWER = "slower"
    WITHIN = "within"
    OPEN = "open"


@dataclass(frozen=True)
class RatioOverPairs:
    """A ratio of times over pairs with its interval at ``level``; 1.05 is 5 % slower."""

    value: float
    low: float
    high: float
    pairs: int


PairRatios = Mapping[Measure, Sequence[float]]  # one for each pair of processes


def over_pairs(ratios: Sequence[float], level: float = _SHOWN_LEVEL) -> RatioOverPairs:
    """The geometric mean of ``ratios`` (one for each pair of processes, at least two) with its
    interval.

    Raises ValueError with fewer.
    """
    values = np.log(np.asarray(ratios, dtype=np.float64))
    if values.size < 2:
        raise ValueError("an interval over pairs needs at least two of them")
    freedom = KNOWN + values.size - 1
    variance = (KNOWN * BETWEEN**2 + (values.size - 1) * float(values.var(ddof=1))) / freedom
    half = float(stdtrit(freedom, (1 + level) / 2)) * math.sqrt(variance / values.size)
    middle = float(values.mean())
    return RatioOverPairs(
        math.exp(middle), math.exp(middle - half), math.exp(middle + half), values.size
    )


def corrected(comparisons: int, level: float = _SHOWN_LEVEL) -> float:
    """The level of each of so many intervals at which all of them hold together (Bonferroni)."""
    return 1 - (1 - level) / max(1, comparisons)


def answer_of_pairs(
    ratios: PairRatios, allowed: float, *, comparisons: int = 1, last: bool = False
) -> PairsAnswer:
    """What the pairs so far say of a cell, one of so many ``comparisons``. ``allowed`` is a share,
    e.g. 0.03.

    Slower: in one measure the estimate is above the allowance and the strict interval is clear of
    no change, by half the allowance while more pairs may come. Within: the 80 % intervals of all
    measures are below the allowance, or, when no more pairs come (``last``), all estimates are.
    """
    count = min(map(len, ratios.values()), default=0)
    if count < MIN_PAIRS:
        return PairsAnswer.OPEN
    if any(_slower(measure, ratios[measure], allowed, comparisons, last) for measure in ratios):
        return PairsAnswer.SLOWER
    found = [over_pairs(values, PASSING) for values in ratios.values()]
    if all((one.value if last else one.high) < 1 + allowed for one in found):
        return PairsAnswer.WITHIN
    return PairsAnswer.OPEN


def _slower(
    measure: Measure, values: Sequence[float], allowed: float, comparisons: int, last: bool
) -> bool:
    found = over_pairs(values, corrected(comparisons, STRICT[measure]))
    return found.value > 1 + allowed and found.low > 1 + (0 if last else allowed / 2)
