"""A supervised process as its command sees it: what it tells, what it prints, how it ended."""

from __future__ import annotations

import os
import pickle
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rnncheck.supervisor.channel import Message, Receiver
from rnncheck.supervisor.child import run_child
from rnncheck.supervisor.deadlines import Deadlines
from rnncheck.supervisor.keeper import ASK, INTERRUPT, KILL, TRACE, keep

# Seconds beyond a deadline in which the process may still notice it by itself, and in which it may
# say where it is before it is killed. Chosen: code that was interrupted unwinds within the first.
GRACE = 5.0
_TRACING = 0.5
_CHUNK = 1 << 16
# Bytes of what it printed that are kept. Chosen: a fault names up to 100 frames of each thread, the
# innermost first, and then each extension module by name.
_LAST_WORDS = 1 << 16


@dataclass(frozen=True)
class Death:
    """How the process ended; ``code`` is its exit code, or minus the signal that killed it.

    ``hung``: it was killed, since a deadline had passed. ``words`` is the end of what it printed.
    """

    code: int
    hung: bool
    words: str


class SupervisedProcess:
    """A process that runs ``make()`` and tells every item of it, and its keeper.

    With ``prints`` its standard output is that of this process.
    """

    def __init__(
        self,
        make: Callable[[], Iterable[Any]],
        waiting: Callable[[], None] = lambda: None,
        *,
        prints: bool = False,
    ) -> None:
        """``waiting`` is called at least once a second while messages are waited for."""
        self._waiting = waiting
        self._deadlines, self._prints = Deadlines(), prints
        self._events, tells = os.pipe()
        self._output, written = os.pipe()
        self._status, ends = os.pipe()
        obeys, self._commands = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        mine = (self._events, self._output, self._status, self._commands)
        self._keeper = os.fork()
        if not self._keeper:
            self._be_keeper(make, tells, written, ends, obeys, mine)
        for theirs in (tells, written, ends, obeys):
            os.close(theirs)
        self._receiver = Receiver()
        self._words = bytearray()
        self._code: int | None = None
        self._hung = False

    def _be_keeper(
        self,
        make: Callable[[], Iterable[Any]],
        tells: int,
        written: int,
        ends: int,
        obeys: int,
        others: tuple[int, ...],
    ) -> None:
        try:
            for one in others:
                os.close(one)

            def body() -> None:
                for one in (ends, obeys):
                    os.close(one)
                run_child(make, self._deadlines, tells, written, prints=self._prints)

            keep(body, obeys, ends, (tells, written))
        finally:
            os._exit(0)

    def messages(self) -> Iterator[Message]:
        """What the process tells, until it and all that it started have ended; what it prints goes
        to standard error meanwhile."""
        open_ends = {self._events, self._output, self._status}
        while self._status in open_ends or open_ends & self._readable(open_ends, 0.0):
            ready = self._readable(open_ends, self._patience())
            for end in sorted(ready):
                data = os.read(end, _CHUNK)
                if not data:
                    open_ends.discard(end)
                elif end == self._output:
                    self._show(data)
                elif end == self._status:
                    self._code = int(data)
                elif not self._hung:  # what it says now comes too late
                    yield from self._receiver.feed(data)
            self._end_what_hangs()
            self._waiting()

    @staticmethod
    def _readable(ends: set[int], patience: float | None) -> set[int]:
        return set(select.select(list(ends), [], [], patience)[0]) if ends else set()

    def death(self) -> Death:
        """How it ended."""
        words = self._words.decode(errors="replace")
        return Death(-9 if self._code is None else self._code, self._hung, words)

    def _patience(self) -> float | None:
        """Seconds until the deadline has passed by the grace; None without one."""
        earliest = self._deadlines.earliest()
        # A deadline that begins later is noticed within a second.
        return min(1.0, max(0.0, earliest + GRACE - time.monotonic())) if earliest else 1.0

    def _end_what_hangs(self) -> None:
        earliest = self._deadlines.earliest()
        if self._hung or not earliest or time.monotonic() < earliest + GRACE:
            return
        self._hung = True
        self._command(TRACE)
        until = time.monotonic() + _TRACING
        while (left := until - time.monotonic()) > 0 and self._readable({self._output}, left):
            if not (data := os.read(self._output, _CHUNK)):
                break
            self._words += data
        self._command(KILL)

    def _show(self, data: bytes) -> None:
        self._words += data
        del self._words[:-_LAST_WORDS]
        with suppress(OSError, ValueError):  # closed, or a full disk
            sys.stderr.write(data.decode(errors="replace"))
            sys.stderr.flush()

    def ask(self) -> None:
        """Interrupt what runs in it, which may catch that."""
        self._command(ASK)

    def _command(self, what: bytes) -> None:
        with suppress(OSError):  # it has ended already
            os.write(self._commands, what)

    def close(self) -> None:
        """End it in order, as Ctrl-C does, and then all that it started."""
        try:
            self._command(INTERRUPT)
            with suppress(pickle.UnpicklingError):
                for _ in self.messages():
                    pass
        finally:
            for one in (self._commands, self._events, self._output, self._status):
                os.close(one)
            with suppress(ChildProcessError):
                os.waitpid(self._keeper, 0)
