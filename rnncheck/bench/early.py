"""A worker that begins before its command line is parsed: it imports torch meanwhile, which takes
longer than all else of its start.

The command's process begins it, and a process that this one forks works with it. Only a parent is
told how a process ended, so that the worker is the child of a watcher, ``python -m
rnncheck.bench.early``, which tells it in a pipe. The watcher also ends the worker as soon as nobody
is left that could want it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from typing import IO

from rnncheck.bench.start import AHEAD, begin_process

# With one of these nothing is measured, or not in a process of this machine.
_WITHOUT = ("--help", "-h", "--plan", "ray", "--engine=ray")
_CODE = 16  # bytes that an exit code takes at most


class EarlyProcess:
    """The worker, with what is used of a ``subprocess.Popen``."""

    def __init__(self) -> None:
        self._status, tells = os.pipe()
        alive, self._alive = os.pipe()
        arguments = [str(tells), str(alive)]
        self._watcher, self.log = begin_process(
            "rnncheck.bench.early", arguments, passed=(tells, alive)
        )
        os.close(tells)
        os.close(alive)
        self.returncode: int | None = None
        self.is_used = False

    @property
    def stdin(self) -> IO[str] | None:
        return self._watcher.stdin

    @property
    def stdout(self) -> IO[str] | None:
        return self._watcher.stdout

    @property
    def pid(self) -> int:
        """Of the watcher, which leads their group."""
        return self._watcher.pid

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises subprocess.TimeoutExpired where it has not ended in time."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("the worker", timeout or 0.0)
            self.returncode = int(os.read(self._status, _CODE) or -signal.SIGKILL)
        return self.returncode

    def end(self) -> None:
        """Kill what is left of it, in the process that began it."""
        if self._watcher.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._watcher.wait()


_begun: list[EarlyProcess] = []


def begin_early(arguments: list[str]) -> None:
    """Begin one where the command line looks as if it will be wanted, and where the system has what
    it takes."""
    wanted = arguments[:1] == ["bench"] and not set(arguments).intersection(_WITHOUT)
    if wanted and hasattr(os, "pidfd_open") and hasattr(os, "fork"):
        _begun.append(EarlyProcess())


def early_process() -> EarlyProcess | None:
    """The one that has begun, once."""
    unused = [one for one in _begun if not one.is_used]
    for one in unused:
        one.is_used = True
    return unused[0] if unused else None


def end_early() -> None:
    """In the process that began one: whatever became of it, it ends now."""
    while _begun:
        _begun.pop().end()


def _watch(worker: int, tells: int, alive: int) -> None:
    """Tell how the worker ends; end it where ``alive`` has no other end any more."""
    for mine in (0, 1):  # the worker's: they close when it ends
        os.close(mine)
    ready = select.select([os.pidfd_open(worker), alive], [], [])[0]
    if alive in ready:
        os.killpg(0, signal.SIGKILL)
    _, status = os.waitpid(worker, 0)
    os.write(tells, str(os.waitstatus_to_exitcode(status)).encode())


def main() -> None:
    """The watcher, and the worker, which is forked while nothing is imported."""
    tells, alive = map(int, sys.argv[1:])
    worker = os.fork()
    if worker:
        _watch(worker, tells, alive)
        return
    os.close(tells)
    os.close(alive)
    from rnncheck.bench.worker import main as work

    sys.argv[1:] = [AHEAD]
    work()


if __name__ == "__main__":
    main()
