"""Timing one prepared call inside a worker: warm it up, choose repetitions, take samples."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

# Seconds that one sample should last: far above the clock's resolution (1 ns), and many
# times Linux's scheduling slice of a few ms, so that being put aside once moves a sample by little.
SAMPLE = 0.03
# Warm-up ends when the last BLOCKS blocks agree within the share STEADY, or after WARM_UP seconds
# beyond them. Chosen, not measured: a cell that is not steady by then is remarked (``distrust``),
# and the rounds go on until its interval is narrow.
STEADY, BLOCKS, WARM_UP = 0.05, 3, 2.0
# Calls within a sample; reached only by calls below SAMPLE / 10 000 = 3 µs, which are remarked.
_MOST_REPETITIONS = 10_000
MANY = 50  # repetitions of which one more costs at most 1 / 50 = 2 %


@dataclass(frozen=True)
class Warm:
    """How warming up went. ``seconds`` is one steady call."""

    first: float  # seconds of the very first call, compilation included
    seconds: float
    repetitions: int
    steady: bool


def warm_up(call: Callable[[], object]) -> Warm:
    """Call until the time of a call no longer changes; at least once."""
    first = _timed(call, 1)
    block = max(1, int(SAMPLE / 2 / max(first, 1e-7)))
    seen: list[float] = []
    begin = time.perf_counter()
    while True:
        seen.append(_timed(call, min(block, _MOST_REPETITIONS)))
        block = max(1, int(SAMPLE / 2 / max(seen[-1], 1e-7)))
        last = seen[-BLOCKS:]
        steady = len(last) == BLOCKS and max(last) <= (1 + STEADY) * min(last)
        if steady or (len(seen) >= BLOCKS and time.perf_counter() - begin > WARM_UP):
            break
    seconds = statistics.median(seen[-BLOCKS:])
    repetitions = min(_MOST_REPETITIONS, max(1, round(SAMPLE / max(seconds, 1e-7))))
    return Warm(first, seconds, repetitions, steady)


def _timed(call: Callable[[], object], repetitions: int) -> float:
    begin = time.perf_counter()
    for _ in range(repetitions):
        call()
    return (time.perf_counter() - begin) / repetitions


def sample(call: Callable[[], object], repetitions: int) -> tuple[float, float]:
    """Wall seconds and the process's CPU seconds of one call, over ``repetitions``; no collection
    in between.

    The call before it was another cell's: one that is not timed brings the caches back, where it
    costs little.
    """
    if repetitions >= MANY:
        call()
    collecting = gc.isenabled()
    gc.disable()
    try:
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        for _ in range(repetitions):
            call()
        wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
    finally:
        if collecting:
            gc.enable()
    return wall / repetitions / 1e9, cpu / repetitions / 1e9
