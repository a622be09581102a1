"""Reasons to distrust a row. They do not change a number; they are printed with it."""

from __future__ import annotations

from rnncheck.numerics.statistics import drift, spread
from rnncheck.results.cells import Samples, Timing

FEW_SAMPLES = 8  # their whole range is a 99 % interval of the median: 1 - 2 / 2^8
# The next two and the last were chosen, not measured. They change no number and fail nothing:
# lower, a row is remarked on most machines, higher, a disturbed one goes without a word.
UNSTEADY = 0.25  # interquartile range over the median
DRIFTING = 0.05  # last third against the first
# Seconds: a call that the loop around it blurs. An empty call in that loop takes 0.06 µs (measured,
# Python 3.11): 0.3 % of this, below the 0.6 % that the ratio of one pair is measured to.
SHORT = 20e-6
BUSY = 0.15  # share of all cores that other processes used
UNJUDGED = "numbers not judged: the budget is too small for it"


def reasons(
    samples: Samples, timing: Timing, target: float, others: float | None, warm: bool
) -> tuple[str, ...]:
    """In words, the most serious first. ``target`` is the wanted relative half-width of the
    interval."""
    steady = samples.steady
    found = []
    if timing.samples < FEW_SAMPLES:
        found.append(f"few samples ({timing.samples})")
    if timing.relative > target:
        found.append(f"interval ±{timing.relative:.1%}, wanted ±{target:.1%}")
    if others is not None and others > BUSY:
        found.append(f"busy machine: other processes used {others:.0%} of the CPU")
    if not warm:
        found.append("not steady after warm-up")
    if spread(steady) > UNSTEADY:
        found.append(f"unsteady: half of the samples spread over {spread(steady):.0%}")
    if abs(drift(steady)) > DRIFTING:
        found.append(f"drifts: {drift(steady):+.0%} from the first third to the last")
    if timing.median < SHORT:
        found.append(f"too short: {timing.median * 1e6:.1f} µs a call")
    return tuple(found)
