"""Ctrl-C and SIGTERM in a command's process: the first ends it in order, the second at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143}  # and their exit codes, as shells have them
_SHOW_CURSOR = b"\x1b[?25h"  # a progress line hides it


class CommandStopped(BaseException):
    """The user, or the machine, wants the command to end; ``code`` is its exit code.

    No KeyboardInterrupt: the command line's parser makes exit code 1 of that.
    """

    def __init__(self, code: int, said: str = "") -> None:
        self.code = code
        self.said = said  # what became of what ran, where there is more to say
        super().__init__(code)


_armed: list[bool] = []
_came: list[signal.Signals] = []
_hearers: list[Callable[[], bool]] = []


def armed() -> bool:
    """Whether this process is that of a command."""
    return bool(_armed) and hasattr(os, "fork")


@contextmanager
def stopping() -> Iterator[None]:
    """Inside, whatever a library makes of CommandStopped is CommandStopped again."""
    try:
        yield
    except CommandStopped:
        raise
    except BaseException as error:
        if _came:
            raise CommandStopped(SIGNALS[_came[0]]) from error
        raise


def arm() -> None:
    """From now on the signals raise CommandStopped; one that was ignored stays ignored."""
    _armed.append(True)

    def stop(signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGINT and not _came and any(hear() for hear in _hearers):
            return
        if _came:
            leave(signum)
        _came.append(signal.Signals(signum))
        raise CommandStopped(SIGNALS[_came[0]])

    for one in SIGNALS:
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, stop)


@contextmanager
def heard_by(hear: Callable[[], bool]) -> Iterator[None]:
    """Inside, Ctrl-C goes to ``hear`` first, and stops the command only where that is False."""
    _hearers.append(hear)
    try:
        yield
    finally:
        _hearers.remove(hear)


def disarm() -> None:
    """The exit code is settled: nothing changes it while the interpreter shuts down."""
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)


def leave(signum: int) -> None:
    """End this process now; what it started notices that it is gone."""
    if sys.__stderr__ is not None and sys.__stderr__.isatty():
        os.write(2, _SHOW_CURSOR)
    os._exit(SIGNALS[signal.Signals(signum)])
