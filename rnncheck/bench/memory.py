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


def cpu_memory(call: Callable[[], object]) -> Memory | None:
    """Peak resident bytes of one call above those before it; None where the system does not tell (no Linux /proc).

    The call has run before, so that what it loads once does not count. Freed memory is first given back to the system.
    """
    gc.collect()
    _trim()
    try:
        CLEAR.write_text(RESET_PEAK)
        before = _resident("VmRSS")
        call()
        peak = _resident("VmHWM")
    except OSError:
        return None
    return Memory(peak=max(0, peak - before), kind="cpu")


def _trim() -> None:
    """Give freed heap pages back, so that the call cannot hide in them; only glibc has it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _resident(name: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * UNIT
    raise OSError(f"{STATUS} has no {name}")
