"""The process that the pipeline runs in: it tells its stream on a pipe, and does not return."""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO

from rnncheck.errors import UserError, first_line
from rnncheck.supervisor.channel import BadInput, Copied, Crashed, Ended, Message, Sender, Told
from rnncheck.supervisor.deadlines import Deadlines, publish, until
from rnncheck.supervisor.interrupts import interrupted, noticing
from rnncheck.supervisor.keeper import descendants

_INTERRUPTED = 130
_COPIES = 2.0  # seconds that a fork may lag behind the process that it was made from; chosen
_AT_EXIT = 20.0  # seconds for the functions that the user's code registered; chosen


def run_child(
    make: Callable[[], Iterable[Any]],
    deadlines: Deadlines,
    events: int,
    output: int,
    *,
    prints: bool = False,
) -> NoReturn:
    """Tell what ``make`` gives, run the functions that were registered for the exit, and end.

    With ``prints`` standard output stays the command's.
    """
    _redirect(output, prints=prints)
    publish(deadlines)
    sender, process = Sender(events), os.getpid()
    try:
        with noticing():
            last = _told(make, sender, process)
        with until(_AT_EXIT):
            atexit._run_exitfuncs()
    except BaseException as error:
        last = _crash(error)
    _end(sender, process, last)


def _redirect(output: int, *, prints: bool) -> None:
    """Nothing to read, and what is written goes to the command: it may be drawing a line."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for one in (2,) if prints else (1, 2):
        os.dup2(output, one)
    sys.stdout, sys.stderr = _lines(1), _lines(2)
    faulthandler.enable(2)
    faulthandler.register(signal.SIGUSR1, 2, all_threads=False)


def _lines(descriptor: int) -> TextIO:
    return open(
        descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )


def _told(make: Callable[[], Iterable[Any]], sender: Sender, process: int) -> Message:
    try:
        for item in make():
            if os.getpid() != process:
                _end(sender, os.getpid(), Copied(item))
            sender.send(Told(item))
    except UserError as error:
        return BadInput(error)
    except BaseException as error:
        return _crash(error)
    return Ended()


def _crash(error: BaseException) -> Message:
    if interrupted():
        os._exit(_INTERRUPTED)
    return Crashed(first_line(error), "".join(traceback.format_exception(error)))


def _end(sender: Sender, process: int, last: Message) -> NoReturn:
    """Say the last word, unless this is a fork that the user's code made."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends anyway
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None:
            stream.flush()
    if os.getpid() == process:
        if isinstance(last, Ended):
            _await_copies()
        sender.send(last)
    os._exit(0)


def _await_copies() -> None:
    """Let forks that the user's code made come as far as this process, to be told of."""
    command = _command(os.getpid())
    deadline = time.monotonic() + _COPIES
    while time.monotonic() < deadline:
        if command not in map(_command, descendants(os.getpid())):
            return
        time.sleep(0.01)


def _command(process: int) -> bytes:
    """Its command line; of a zombie nothing."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""
