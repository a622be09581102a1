"""Whether Ctrl-C was pressed, whatever became of the KeyboardInterrupt that it raised.

Context managers of libraries turn it into errors of their own, and ``except BaseException`` of a
user's swallows it; code that raises KeyboardInterrupt itself was not interrupted by anybody.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Notice:
    def __init__(self) -> None:
        self.depth = 0
        self.came = False


_notice = _Notice()


@contextmanager
def noticing() -> Iterator[None]:
    """Inside, Ctrl-C is remembered, and raises what it raised before. Elsewhere than in the main
    thread nothing is."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return

    def notice(signum: int, frame: FrameType | None) -> None:
        _notice.came = True
        handler(signum, frame)

    signal.signal(signal.SIGINT, notice)
    _notice.depth += 1
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        _notice.depth -= 1
        _notice.came = _notice.came and _notice.depth > 0


def interrupted() -> bool:
    """Whether Ctrl-C came since ``noticing`` began."""
    return _notice.came


def took_notice() -> bool:
    """Whether Ctrl-C came; from now on it did not: the user's code caught it, and has ended."""
    came, _notice.came = _notice.came, False
    return came


def pass_on(error: BaseException | None = None) -> None:
    """Raise KeyboardInterrupt where Ctrl-C came: ``error`` is what was made of it."""
    if _notice.came:
        raise KeyboardInterrupt from error
