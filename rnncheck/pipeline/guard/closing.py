"""Shutting down what the user's code has opened: quietly, within a time, with no process left."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Iterable
from contextlib import suppress

from rnncheck.pipeline.guard.timeout import time_limit

# Seconds that envs and collectors get to shut down before their workers are killed. Chosen: a
# worker ends the batch that it is at first; a shorter wait kills busy ones, a longer one is lost on
# those that hang.
_CLOSING = 20.0


def close_all(closers: Iterable[object]) -> None:
    """Call each of ``closers`` that can be called; what they raise and warn of is dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for closer in filter(callable, closers):
            with suppress(Exception), time_limit("close", _CLOSING):
                closer()


class ChildProcesses:
    """The processes that are started after this was made."""

    def __init__(self) -> None:
        self._before = set(multiprocessing.active_children())

    def reap(self) -> None:
        """Kill those that still run."""
        for child in set(multiprocessing.active_children()) - self._before:
            child.kill()
            child.join(_CLOSING)
