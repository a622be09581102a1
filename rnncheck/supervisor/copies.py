"""Forks that the user's code made and let go on: such a copy of the supervised process tells that
it is one as soon as it is out of the user's code, and ends."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnncheck.supervisor.channel import Copied, Sender
from rnncheck.supervisor.keeper import descendants

_LAG = 10.0  # seconds that a copy may need to leave the user's code after the run's end; chosen


@dataclass
class _Original:
    """The supervised process, and the last item that it told."""

    sender: Sender
    process: int
    item: Any = None


_originals: list[_Original] = []


@contextmanager
def watching_copies(sender: Sender) -> Iterator[None]:
    """This process tells its items through ``sender``."""
    _originals.append(_Original(sender, os.getpid()))
    try:
        yield
    finally:
        _originals.pop()


def told(item: Any) -> None:
    """The process has told ``item``."""
    _originals[-1].item = item


def end_if_copied() -> None:
    """Tell and end, if this is a fork that the user's code made.

    A worker of multiprocessing is none: that never comes out of the code that made it.
    """
    for original in _originals[-1:]:
        if os.getpid() != original.process and multiprocessing.parent_process() is None:
            original.sender.send(Copied(original.item))
            os._exit(0)


def await_copies() -> None:
    """Let the forks that the user's code made come out of it, to be told of."""
    command = _command(os.getpid())
    workers = {worker.pid for worker in multiprocessing.active_children()}
    deadline = time.monotonic() + _LAG
    while time.monotonic() < deadline:
        if command not in map(_command, set(descendants(os.getpid())) - workers):
            return
        time.sleep(0.01)


def _command(process: int) -> bytes:
    """Its command line; of a zombie nothing."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""
