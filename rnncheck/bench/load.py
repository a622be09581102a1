"""How busy the machine is with other work, and since when this process runs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

STAT, OWN = Path("/proc/stat"), Path("/proc/self/stat")


@dataclass(frozen=True)
class Usage:
    """CPU seconds since boot: all cores in any state, and all cores at work."""

    total: float
    busy: float


def usage() -> Usage | None:
    """The present counters; None where there is no Linux /proc."""
    try:
        fields = [int(value) for value in STAT.read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return None
    tick = os.sysconf("SC_CLK_TCK")
    idle = fields[3] + fields[4]  # idle and waiting for input or output
    return Usage(sum(fields) / tick, (sum(fields) - idle) / tick)


def others_share(before: Usage | None, after: Usage | None, own: float) -> float | None:
    """The share of all cores that other processes used in between; ``own`` are this work's CPU
    seconds."""
    if before is None or after is None or after.total <= before.total:
        return None
    return max(0.0, (after.busy - before.busy - own) / (after.total - before.total))


def process_began() -> float:
    """When this process did, as time.monotonic has it; now where there is no Linux /proc."""
    try:
        ticks = int(OWN.read_text().rpartition(")")[2].split()[19])  # since boot: see proc(5)
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        age = 0.0
    return time.monotonic() - age
