"""What stays uncertain however long one measures within one process."""

from __future__ import annotations

import math

NORMAL = 1.96  # standard deviations of a 95 % interval: the 97.5 % point of the normal distribution
# Standard deviation of a logarithmic ratio between fresh processes that were measured in turn,
# however long: the layout of their memory. Measured on a quiet machine of 2 cores; with every core
# loaded it was 3.3 % for wall time and 2.8 % for CPU time (fixtures/runs/gate_pairs_loaded.jsonl).
BETWEEN = 0.018


def widened(half: float, comparisons: int = 1) -> float:
    """Half of a logarithmic 95 % interval that was seen within processes, for what another process
    would give.

    ``comparisons`` are the ratios that were combined, each with its own share of ``BETWEEN``.
    """
    return math.sqrt(half * half + comparisons * (NORMAL * BETWEEN) ** 2)
