"""Made-up measured rows."""

from __future__ import annotations

from rnncheck.results.cells import (
    Accuracy,
    Cell,
    CellResult,
    Memory,
    Phase,
    Ratio,
    Samples,
    Status,
    Timing,
)
from rnncheck.results.variant import parse_variant


def row(
    variant: str,
    seconds: float,
    *,
    phase: Phase = Phase.TRAIN,
    steps: int = 16,
    resets: float = 0.03,
    against: float | None = None,
    peak: int = 2**20,
    error: float = 1e-7,
    status: Status = Status.OK,
) -> CellResult:
    """A row whose rounds all take ``seconds``; ``against`` are the reference's seconds."""
    value = None if against is None else against / seconds
    noise = [1.0, 1.001, 0.999, 1.002, 0.998, 1.0, 1.001, 0.999]
    return CellResult(
        Cell(phase, parse_variant(variant), 4, steps, resets),
        status,
        samples=Samples(tuple(range(8)), tuple(seconds * n for n in noise), (seconds,) * 8),
        timing=Timing(seconds, seconds * 0.99, seconds * 1.01, 8, "interval reached"),
        ratio=None if value is None else Ratio("pad", value, value * 0.99, value * 1.01),
        accuracy=Accuracy(error, 1e-5),
        memory=Memory(peak),
    )
