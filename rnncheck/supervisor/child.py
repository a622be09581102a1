"""The process that the pipeline runs in: it tells its stream on a pipe, and does not return."""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TextIO

from rnncheck.errors import UserError, first_line
from rnncheck.supervisor.channel import BadInput, Crashed, Ended, Message, Sender, Told
from rnncheck.supervisor.copies import await_copies, end_if_copied, told, watching_copies
from rnncheck.supervisor.deadlines import Deadlines, publish, until
from rnncheck.supervisor.interrupts import interrupted, noticing

_INTERRUPTED = 130
UNHEARD = 74  # EX_IOERR of sysexits(3): there is no pipe any more to say the last word on
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
        with noticing(), watching_copies(sender):
            last = _told(make, sender)
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


def _told(make: Callable[[], Iterable[Any]], sender: Sender) -> Message:
    try:
        for item in make():
            end_if_copied()
            sender.send(Told(item))
            told(item)
        end_if_copied()
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
            await_copies()
        try:
            sender.send(last)
        except OSError:
            os._exit(UNHEARD)
    os._exit(0)


def end_at_once() -> NoReturn:
    """End a process that has done its work, without taking down what it has imported: torch takes a
    second for that."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
