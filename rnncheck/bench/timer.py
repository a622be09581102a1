"""Timing one prepared call inside a worker: warm it up, choose repetitions, take samples.

A sample is the wall time of a call, less what the call waited for a core that other processes had.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Seconds that one sample should last: far above the clock's resolution (1 ns), and many
# times Linux's scheduling slice of a few ms, so that being put aside once moves a sample by little.
SAMPLE = 0.03
# Warm-up ends when the least of the last BLOCKS blocks is within the share STEADY of the least
# before them, or after WARM_UP seconds. The least, since it bears a busy machine: that three blocks
# agree may never happen there. Chosen, not measured: a cell that still becomes faster then is
# remarked (``distrust``), and the rounds go on until its interval is narrow.
STEADY, BLOCKS, WARM_UP = 0.05, 3, 2.0
# Calls within a sample; reached only by calls below SAMPLE / 10 000 = 3 µs, which are remarked.
_MOST_REPETITIONS = 10_000
MANY = 50  # repetitions of which one more costs at most 1 / 50 = 2 %
# Of this thread, see "Scheduler Statistics" in Linux's documentation: nanoseconds on a core,
# nanoseconds ready to run without one, times that it got one.
SCHEDSTAT = Path("/proc/thread-self/schedstat")


@dataclass(frozen=True)
class Warm:
    """How warming up went. ``seconds`` is one steady call."""

    first: float  # seconds of the very first call, compilation included
    seconds: float
    repetitions: int
    steady: bool


def warm_up(call: Callable[[], object]) -> Warm:
    """Call until calls no longer become faster."""
    first = _timed(call, 1)
    block = max(1, int(SAMPLE / 2 / max(first, 1e-7)))
    seen: list[float] = []
    begin = time.perf_counter()
    while True:
        seen.append(_timed(call, min(block, _MOST_REPETITIONS)))
        block = max(1, int(SAMPLE / 2 / max(seen[-1], 1e-7)))
        before, last = seen[:-BLOCKS], seen[-BLOCKS:]
        steady = bool(before) and min(last) >= (1 - STEADY) * min(before)
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


@dataclass(frozen=True)
class Clocks:
    """Nanoseconds of which only differences count."""

    wall: int
    process: int  # of CPU, all threads
    thread: int  # of CPU, this one
    ready: int  # of this thread, without a core

    @classmethod
    def begin(cls) -> Clocks:
        """The wall last: reading the others is not timed."""
        ready, thread, process = _ready(), time.thread_time_ns(), time.process_time_ns()
        return cls(time.perf_counter_ns(), process, thread, ready)

    def since(self) -> Clocks:
        """What has passed; the wall first."""
        wall, process = time.perf_counter_ns(), time.process_time_ns()
        thread, ready = time.thread_time_ns(), _ready()
        return Clocks(
            wall - self.wall, process - self.process, thread - self.thread, ready - self.ready
        )

    @property
    def waited(self) -> int:
        """For a core that other processes had, at least: never more than the thread did not
        compute, and less what other threads of this process computed, which may have had it."""
        idle = min(self.ready, self.wall - self.thread)
        return max(0, idle - max(0, self.process - self.thread))


def _ready() -> int:
    """0 where the system does not tell."""
    try:
        return int(SCHEDSTAT.read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def sample(call: Callable[[], object], repetitions: int) -> tuple[float, float, float]:
    """Of one call, over ``repetitions``: wall seconds, less those that it waited for a core; the
    process's CPU seconds; and what it waited. No collection in between.

    The call before it was another cell's: one that is not timed brings the caches back, where it
    costs little.
    """
    if repetitions >= MANY:
        call()
    collecting = gc.isenabled()
    gc.disable()
    try:
        begin = Clocks.begin()
        for _ in range(repetitions):
            call()
        taken = begin.since()
    finally:
        if collecting:
            gc.enable()
    waited, calls = taken.waited, repetitions * 1e9
    return (taken.wall - waited) / calls, taken.process / calls, waited / calls
