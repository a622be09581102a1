"""From distances by row and lag to a curve: quantiles, horizon, reach, half-life, with
intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rnncheck.numerics.paired import bootstrapped
from rnncheck.numerics.statistics import Floats
from rnncheck.recall.measured import CannotTell
from rnncheck.recall.outputs import MeasuredOutput
from rnncheck.results.memory import AtLag, Estimated, InfluenceCurve

# Of the largest mean influence of an earlier observation: what moves the output by less than a
# hundredth of what the most remembered one does is left out of the reach. Chosen.
REACH_SHARE = 0.01
_QUANTILES = (10, 50, 90)
RowNumbers = NDArray[np.int64]


@dataclass(frozen=True)
class MeasuredRows:
    """``distances`` ``[rows, lags]``, where ``there`` says so; ``episodes`` ``[rows]``.

    Column ``i`` is lag ``first + i``. ``cut`` says that the episodes go on behind the last lag.
    Raises CannotTell of what is not a number.
    """

    distances: Floats
    there: NDArray[np.bool_]
    episodes: RowNumbers
    first: int = 0
    cut: bool = False

    def __post_init__(self) -> None:
        if np.isnan(self.distances[self.there]).any():
            raise CannotTell("outputs, or their gradients, hold NaN")

    @property
    def longest(self) -> int:
        """The last lag that any row has."""
        return self.first + int(np.flatnonzero(self.there.any(0)).max(initial=0))

    def at_lags(self) -> tuple[AtLag, ...]:
        """What the rows show at each lag that any of them has."""
        found = []
        for column in range(self.longest - self.first + 1):
            values = self.distances[self.there[:, column], column]
            low, middle, high = np.percentile(values, _QUANTILES)
            found.append(
                AtLag(
                    self.first + column,
                    values.size,
                    float(low),
                    float(middle),
                    float(high),
                    float(values.mean()),
                    float(values.max()),
                )
            )
        return tuple(found)

    def estimated(
        self, statistic: Callable[[Floats, Floats], tuple[float, bool]]
    ) -> Estimated | None:
        """``statistic`` of means by lag and of linked levels, with its interval; None where it is
        not a number."""

        def of(rows: RowNumbers) -> tuple[float, bool]:
            means, levels = self._means(rows), self._levels(rows)
            return statistic(means, levels)

        value, beyond = of(np.arange(len(self.episodes)))
        if not math.isfinite(value):
            return None
        low, high = bootstrapped(self.episodes, lambda rows: of(rows)[0])
        return Estimated(value, min(low, value), max(high, value), beyond)

    def _means(self, rows: RowNumbers) -> Floats:
        """The mean at each lag; 0 where no row has it."""
        there = self.there[rows]
        total = np.where(there, self.distances[rows], 0.0).sum(0)
        means: Floats = total / np.maximum(there.sum(0), 1)
        return means

    def _levels(self, rows: RowNumbers) -> Floats:
        """Means that are linked from lag to lag over the rows that have both, so that it does not
        tell which rows end early."""
        there, values = self.there[rows], self.distances[rows]
        both = there[:, 1:] & there[:, :-1]
        after = np.where(both, values[:, 1:], 0.0).sum(0)
        before = np.where(both, values[:, :-1], 0.0).sum(0)
        means = self._means(rows)
        levels = means.copy()
        for i in range(1, len(levels)):
            if before[i - 1] > 0 and levels[i - 1] > 0:
                levels[i] = levels[i - 1] * after[i - 1] / before[i - 1]
        return levels


@dataclass(frozen=True)
class MeasuredCurve:
    """Of what a curve is; ``told`` makes it of what was measured."""

    output: MeasuredOutput
    noise: float
    method: str = "replaced"
    through: str = ""
    agent: int | None = None
    of_state: bool = False
    partial: bool = False

    def told(self, rows: MeasuredRows) -> InfluenceCurve:
        """With horizon, reach and half-life."""
        lags = rows.at_lags()
        horizon = horizon_of(lags, self.noise)
        return InfluenceCurve(
            output=self.output.name,
            unit=self.output.unit if self.method == "replaced" else "norm of the Jacobian",
            method=self.method,
            through=self.through,
            agent=self.agent,
            lags=lags,
            noise=self.noise,
            longest=rows.longest,
            horizon=horizon,
            reach=reach_of(rows) if horizon else None,
            half_life=half_life_of(rows) if horizon else None,
            of_state=self.of_state,
            partial=self.partial,
            acts=self.output.acts,
        )


def horizon_of(lags: Sequence[AtLag], noise: float) -> int:
    """The last lag of at least 1 at which any pair lies above the noise; 0 without one."""
    return max((one.lag for one in lags if one.lag > 0 and one.largest > noise), default=0)


def reach_of(rows: MeasuredRows, share: float = REACH_SHARE) -> Estimated | None:
    """The last lag whose mean is at least ``share`` of the largest mean at any lag of 1 or more."""

    def last(means: Floats, _: Floats) -> tuple[float, bool]:
        later = means[1 - rows.first :] if rows.first < 1 else means
        if later.size == 0 or later.max() <= 0:
            return math.nan, False
        lag = int(np.flatnonzero(later >= share * later.max()).max()) + max(1, rows.first)
        return float(lag), rows.cut and lag == rows.longest

    return rows.estimated(last)


def half_life_of(rows: MeasuredRows) -> Estimated | None:
    """The lags from the largest level (of at least lag 1) until it is halved; between two lags
    levels fall as a power. None where the largest is the last."""

    def halved(_: Floats, levels: Floats) -> tuple[float, bool]:
        later = levels[1 - rows.first :] if rows.first < 1 else levels
        later = later[: rows.longest - max(1, rows.first) + 1]
        if later.size < 2 or later.max() <= 0 or int(later.argmax()) == later.size - 1:
            return math.nan, False
        peak = int(later.argmax())
        half = later[peak] / 2
        below = np.flatnonzero(later[peak:] <= half)
        if below.size == 0:
            return float(later.size - 1 - peak), True
        return _between(later[peak:], int(below[0]), float(half)), False

    return rows.estimated(halved)


def _between(levels: Floats, at: int, half: float) -> float:
    """Where the level passes ``half`` on its way to position ``at``."""
    above, below = float(levels[at - 1]), float(levels[at])
    if below <= 0:
        return at - 1 + (above - half) / above
    return at - 1 + math.log(above / half) / math.log(above / below)
