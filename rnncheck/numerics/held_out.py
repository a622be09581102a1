"""How much of a target a smooth fit leaves unexplained on steps that it has not seen.

Kernel ridge regression with a Gaussian kernel and a linear one, which goes on beyond what was seen
(Rasmussen and Williams 2006, "Gaussian Processes for Machine Learning", chapter 2); width and ridge
are those of the least leave-one-out error of what it is fitted on (section 5.4.2 there), for each
target.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rnncheck.numerics.statistics import Floats

_FITTED = 300  # the most steps that are fitted: chosen, a few hundredths of a second
_WIDTHS = (0.5, 1.0, 2.0, 4.0)  # of the kernel, in deviations and per root of a dimension
_RIDGES = (1e-8, 1e-5, 1e-2)  # of the kernel's largest value: none, little, much noise
_FLAT = 1e-9  # of its largest value: a column that moves by less is constant

StepRows = NDArray[np.int64]


@dataclass(frozen=True)
class SmoothFit:
    """What was fitted; ``left_out`` is the leave-one-out error of each target over its variance."""

    middle: Floats
    scale: Floats
    seen: Floats  # [rows, numbers], standardised
    level: Floats  # [targets]
    width: Floats  # [targets]
    weights: Floats  # [rows, targets]
    left_out: Floats

    def predicted(self, features: Floats) -> Floats:
        """``[rows, targets]``."""
        wide = (features - self.middle) / self.scale
        found = np.empty((len(features), len(self.level)))
        for width in np.unique(self.width):
            mine = self.width == width
            found[:, mine] = _kernel(wide, self.seen, float(width)) @ self.weights[:, mine]
        found += self.level
        return found


def smooth_fit(features: Floats, targets: Floats, share: float = 1.0) -> SmoothFit:
    """Of ``features`` ``[rows, numbers]`` and ``targets`` ``[rows, targets]``; of many rows some
    are drawn, of which ``share`` is used."""
    most = int(share * min(_FITTED, len(features)))
    chosen = np.random.default_rng(0).permutation(len(features))[:most]
    x, y = features[chosen], targets[chosen]
    middle, level = x.mean(0), y.mean(0)
    deviation = x.std(0)
    scale = np.where(deviation > _FLAT * np.abs(x).max(initial=0.0), deviation, np.inf)
    wide, rest = (x - middle) / scale, y - level
    count = rest.shape[1]
    best, width, weights = np.full(count, np.inf), np.ones(count), np.zeros(rest.shape)
    for one in _WIDTHS:
        kernel = _kernel(wide, wide, one)
        for ridge in _RIDGES:
            inverse = np.linalg.inv(kernel + ridge * np.eye(len(wide)))
            found = inverse @ rest
            error = ((found / np.diag(inverse)[:, None]) ** 2).mean(0)
            better = error < best
            best, width = np.where(better, error, best), np.where(better, one, width)
            weights[:, better] = found[:, better]
    return SmoothFit(
        middle, scale, wide, level, width, weights, best / np.maximum(y.var(0), 1e-300)
    )


def _kernel(left: Floats, right: Floats, width: float) -> Floats:
    """``[left, right]``: how near they are, and their product."""
    numbers, product = max(1, left.shape[1]), left @ right.T
    squares = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2 * product
    found: Floats = np.exp(-squares.clip(min=0) / (2 * width**2 * numbers)) + product / numbers
    return found


def unexplained(told: Floats, truth: Floats, rows: StepRows) -> float:
    """The squared error over the squared deviation of ``rows``; not a number of what never
    moves."""
    moved = ((truth[rows] - truth[rows].mean()) ** 2).sum()
    return float(((told[rows] - truth[rows]) ** 2).sum() / moved) if moved > 0 else np.nan


def misordered(told: Floats, event: Floats, rows: StepRows) -> float:
    """Twice the chance that a step without ``event`` is told to be likelier to have it than one
    with it: 1 where nothing is told."""
    there = event[rows] > 0
    with_, without = told[rows][there], np.sort(told[rows][~there])
    if not with_.size or not without.size:
        return np.nan
    below = np.searchsorted(without, with_, "left") + np.searchsorted(without, with_, "right")
    return float(2 * (1 - (below / 2).mean() / without.size))
