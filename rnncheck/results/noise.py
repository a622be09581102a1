"""What stays uncertain however long one measures within one process."""

from __future__ import annotations

import math

NORMAL = 1.96  # standard deviations of a 95 % interval
BETWEEN = 0.018  # standard deviation of a logarithmic ratio between fresh processes (measured: memory layout)


def widened(half: float, comparisons: int = 1) -> float:
    """Half of a logarithmic 95 % interval that was seen within processes, for what another process would give.

    ``comparisons`` are the ratios that were combined, each with its own share of ``BETWEEN``.
    """
    return math.sqrt(half * half + comparisons * (NORMAL * BETWEEN) ** 2)
