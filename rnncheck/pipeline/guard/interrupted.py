"""Ctrl-C in a script that may catch it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rnncheck.supervisor.interrupts import took_notice
from rnncheck.supervisor.scripts import BY_ITSELF

_REPEAT_AFTER = 1.0  # seconds, as a time limit is repeated that was swallowed


@contextmanager
def ended_after_ctrl_c() -> Iterator[None]:
    """Inside, within a ``time_limit``: Ctrl-C leaves BY_ITSELF seconds of it."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return

    def shorten(signum: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, BY_ITSELF, _REPEAT_AFTER)
        handler(signum, frame)

    signal.signal(signal.SIGINT, shorten)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def caught_ctrl_c() -> bool:
    """Whether Ctrl-C came, and the code that ran caught it; from now on it did not come."""
    return took_notice()
