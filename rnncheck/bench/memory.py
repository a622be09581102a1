"""Memory of one call, measured apart from its timing: peak above what the process held before."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rnncheck.results.cells import Memory

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # see proc(5): resets VmHWM to the present resident size
UNIT = 1024  # /proc gives kB
# Calls, of which the median counts: the kernel counts pages in batches, and one call may miss some.
# Three are the fewest of which one may be off.
TIMES = 3


def cpu_memory(call: Callable[[], object], times: int = TIMES) -> Memory | None:
    """Peak resident bytes of a call above those before it; None where the system does not tell (no
    Linux /proc).

    The call has run before, so that what it loads once does not count. Freed memory is first given
    back to the system.
    """
    try:
        peaks = sorted(_peak(call) for _ in range(times))
    except OSError:
        return None
    return Memory(peaks[times // 2], kind="cpu", low=peaks[0], high=peaks[-1])


def _peak(call: Callable[[], object]) -> int:
    gc.collect()
    _trim()
    CLEAR.write_text(RESET_PEAK)
    before = _resident("VmRSS")
    call()
    return max(0, _resident("VmHWM") - before)


def _trim() -> None:
    """Give freed heap pages back, so that the call cannot hide in them; only glibc has it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _resident(name: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * UNIT
    raise OSError(f"{STATUS} has no {name}")
