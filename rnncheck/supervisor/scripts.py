"""A script that is supervised: Ctrl-C goes to it first, since it may catch that and end in its own
way."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rnncheck.supervisor.process import SupervisedProcess
from rnncheck.supervisor.signals import SIGNALS, CommandStopped, heard_by

# Seconds behind Ctrl-C: for the script to end by itself, and from then on to be ended from inside.
# Chosen: the first is what any pipeline is given to unwind.
BY_ITSELF, _FROM_INSIDE = 3.0, 5.0
_STOPPED = SIGNALS[signal.SIGINT]
OVERDUE = (
    f"the script did not end within {BY_ITSELF + _FROM_INSIDE:g} s of Ctrl-C: it was ended by"
    " force, and what it did is not judged"
)
ScriptEnded = Callable[[Any], bool]


class SupervisedScript:
    """Runs until an item of the stream is ``ended``; None where what runs is no script."""

    def __init__(self, ended: ScriptEnded | None, waiting: Callable[[], None]) -> None:
        self._ended, self._waiting = ended, waiting
        self._runs, self._asked = ended is not None, 0.0
        self._process: SupervisedProcess | None = None

    @contextmanager
    def inside(self, process: SupervisedProcess) -> Iterator[None]:
        """It runs in ``process``, and hears of Ctrl-C."""
        self._process = process
        with heard_by(self._interrupt):
            yield

    def _interrupt(self) -> bool:
        """Hand Ctrl-C on, the first time and while the script runs; whether that was done."""
        if self._asked or not self._runs or self._process is None:
            return False
        self._asked = time.monotonic()
        self._process.ask()
        return True

    def note(self, item: Any) -> None:
        """An item of the stream."""
        if self._ended is not None and self._ended(item):
            self._runs = False

    def wait(self) -> None:
        """Called at least once a second: CommandStopped where the script does not end."""
        self._waiting()
        if self._asked and self._runs and time.monotonic() > self._asked + BY_ITSELF + _FROM_INSIDE:
            self._runs = False  # said once
            raise CommandStopped(_STOPPED, OVERDUE)

    def broke_off(self, code: int) -> None:
        """The process ended before its stream: CommandStopped where Ctrl-C did that."""
        if self._asked and (self._runs or code == _STOPPED):
            raise CommandStopped(_STOPPED)
