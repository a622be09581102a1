"""A worker process as seen from the run: start it, ask it, and notice that it hangs or died."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol, TypeVar

from rnncheck.bench.early import EarlyProcess
from rnncheck.bench.messages import (
    LAST,
    Command,
    UnreadableMessage,
    WorkerAnswer,
    WorkerFailed,
    decode_answer,
    encode_command,
)
from rnncheck.bench.start import AHEAD, begin_process

_STDERR_KEPT = 2000  # characters of the worker's standard error; chosen: its last line is told
# The next two are seconds and were chosen, not measured: too short, a slow machine is called
# broken, too long, a broken one is waited for. A worker imports and builds in a few seconds on 2
# cores.
START_UP = 120.0  # that it may take to import and to build the pipeline, at least
PATIENCE = 5.0  # that it gets to end by itself

Wanted = TypeVar("Wanted")


class WorkerTrouble(Exception):
    """The worker gives no further answer. Its arguments are all that it says: it can be pickled."""


class WorkerDied(WorkerTrouble):
    """The process ended in the middle of something; ``signal`` names what killed it, if
    anything."""

    def __init__(self, code: int | None, words: str) -> None:
        self.code = code
        self.signal = signal.Signals(-code).name if code is not None and code < 0 else ""
        self.words = words
        super().__init__(code, words)

    def __str__(self) -> str:
        return f"the process ended with {self.signal or f'exit status {self.code}'}"


class WorkerHangs(WorkerTrouble):
    """No answer within the time-out; the process was killed."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(seconds)

    def __str__(self) -> str:
        return f"no answer within {self.seconds:g} s"


class WorkerGarbled(WorkerTrouble):
    """It said what is no answer, or none to what was asked; the process was killed."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)

    def __str__(self) -> str:
        return f"the process gave no answer that can be read: {self.problem}"


class AnyWorker(Protocol):
    """A worker as a group sees it, wherever it runs."""

    def send(self, command: Command) -> None:
        """Give a command. Raises WorkerDied."""

    def reply(self, timeout: float) -> WorkerAnswer:
        """The next answer, within ``timeout`` seconds. Raises WorkerTrouble."""
        ...

    def close(self) -> None:
        """Let it end, and see to it that it does."""

    def kill(self) -> None:
        """End it now."""


def receive(worker: AnyWorker, wanted: type[Wanted], timeout: float) -> Wanted | WorkerFailed:
    """The next answer, which is to be a ``wanted`` one. Raises WorkerTrouble."""
    found = worker.reply(timeout)
    if isinstance(found, (wanted, WorkerFailed)):
        return found
    worker.kill()
    raise WorkerGarbled(f"{type(found).__name__} where {wanted.__name__} was to come")


def ask(
    worker: AnyWorker, command: Command, wanted: type[Wanted], timeout: float
) -> Wanted | WorkerFailed:
    """Give a command and wait for its one answer. Raises WorkerTrouble."""
    worker.send(command)
    return receive(worker, wanted, timeout)


class WorkerProcess:
    """One process. It is a group of its own, so that nothing that it starts outlives it."""

    def __init__(
        self,
        python: str = sys.executable,
        environment: dict[str, str] | None = None,
        folder: Path | None = None,
        *,
        ahead: bool = False,
        begun: EarlyProcess | None = None,
    ) -> None:
        """``ahead``: it imports before it is asked for anything; ``begun`` is one that does so
        already, as it is."""
        self._process: subprocess.Popen[str] | EarlyProcess
        if begun is not None:
            self._process, self._log = begun, begun.log
        else:
            self._process, self._log = begin_process(
                "rnncheck.bench.worker",
                [AHEAD] if ahead else [],
                python=python,
                environment=environment,
                folder=folder,
            )
        self._replies: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True).start()

    def _listen(self, lines: IO[str]) -> None:
        with suppress(ValueError, OSError):  # the pipe was closed under it
            for line in lines:
                self._replies.put(line)
        self._replies.put(None)

    def send(self, command: Command) -> None:
        """Give a command. Raises WorkerDied."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(encode_command(command))
            self._process.stdin.flush()
        except (BrokenPipeError, OSError):
            raise self._death() from None

    def reply(self, timeout: float) -> WorkerAnswer:
        """The next answer, within ``timeout`` seconds. Raises WorkerTrouble."""
        try:
            line = self._replies.get(timeout=timeout)
        except queue.Empty:
            self.kill()
            raise WorkerHangs(timeout) from None
        if line is None:
            raise self._death()
        try:
            return decode_answer(line)
        except UnreadableMessage as error:
            self.kill()
            raise WorkerGarbled(str(error)) from error

    def _death(self) -> WorkerDied:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        died = WorkerDied(self._process.returncode, self.last_words())
        self.kill()
        return died

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), _STDERR_KEPT, max(0, size - _STDERR_KEPT))
        return text.decode("utf-8", errors="replace").strip()

    def close(self) -> None:
        """Let it end, and see to it that it does."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.write(LAST)  # others may hold the pipe open
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        self.kill()

    def kill(self) -> None:
        """End the whole group now."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
