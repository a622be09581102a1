"""Until when the code under way may run, told where a supervising process can read it."""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

_TIME = struct.Struct("d")  # seconds of time.monotonic(); 0 for no deadline


class Deadlines:
    """The earliest deadline, in memory that a process shares with those that it forks."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _TIME.size)
        self._open: list[float] = []
        self.process = 0  # who tells; a fork of it tells nothing

    def earliest(self) -> float:
        """Seconds of ``time.monotonic()``, or 0."""
        return float(_TIME.unpack_from(self._memory)[0])

    def add(self, deadline: float) -> None:
        """From now on this is one of them."""
        self._open.append(deadline)
        self._tell()

    def remove(self, deadline: float) -> None:
        """It was kept."""
        self._open.remove(deadline)
        self._tell()

    def _tell(self) -> None:
        _TIME.pack_into(self._memory, 0, min(self._open, default=0.0))


_told: list[Deadlines] = []


def publish(deadlines: Deadlines) -> None:
    """This process tells its deadlines there."""
    deadlines.process = os.getpid()
    _told[:] = [deadlines]


@contextmanager
def until(seconds: float) -> Iterator[None]:
    """The body is to end within ``seconds``; where nobody supervises, this does nothing."""
    mine = [one for one in _told if one.process == os.getpid()]
    deadline = time.monotonic() + seconds
    for one in mine:
        one.add(deadline)
    try:
        yield
    finally:
        for one in mine:
            one.remove(deadline)
