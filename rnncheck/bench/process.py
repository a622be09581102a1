"""A worker process as seen from the run: start it, ask it, and notice that it hangs or died."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

LAST_WORDS = 2000  # characters of the worker's standard error that are kept
PATIENCE = 5.0  # seconds that a worker gets to end by itself
# Inductor's pool of compilers would load the machine while the first cells are timed.
QUIET = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}

Reply = dict[str, Any]


class WorkerDied(Exception):
    """The process ended in the middle of something; ``signal`` names what killed it, if anything."""

    def __init__(self, code: int | None, words: str) -> None:
        self.code = code
        self.signal = signal.Signals(-code).name if code is not None and code < 0 else ""
        self.words = words
        super().__init__(self.signal or f"exit status {code}")


class WorkerHangs(Exception):
    """No answer within the time-out; the process was killed."""


class AnyWorker(Protocol):
    """A worker as a group sees it, wherever it runs."""

    def send(self, do: str, **fields: Any) -> None:
        """Give a command. Raises WorkerDied."""

    def reply(self, timeout: float) -> Reply:
        """The next answer. Raises WorkerHangs after ``timeout`` seconds, WorkerDied at its end."""
        ...

    def ask(self, do: str, timeout: float, **fields: Any) -> Reply:
        """Give a command and wait for its one answer."""
        ...

    def close(self) -> None:
        """Let it end, and see to it that it does."""

    def kill(self) -> None:
        """End it now."""


class WorkerProcess:
    """One process. It is a group of its own, so that nothing that it starts outlives it."""

    def __init__(
        self,
        python: str = sys.executable,
        environment: dict[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(
            [python, "-m", "rnncheck.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**QUIET, **os.environ, "PYTHONPATH": _path(), **(environment or {})},
            cwd=folder,
            start_new_session=True,
            text=True,
            encoding="utf-8",
        )
        self._replies: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True).start()

    def _listen(self, lines: IO[str]) -> None:
        with suppress(ValueError, OSError):  # the pipe was closed under it
            for line in lines:
                self._replies.put(json.loads(line))
        self._replies.put(None)

    def send(self, do: str, **fields: Any) -> None:
        """Give a command. Raises WorkerDied."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, OSError):
            raise self._death() from None

    def reply(self, timeout: float) -> Reply:
        """The next answer. Raises WorkerHangs after ``timeout`` seconds, WorkerDied at the process's end."""
        try:
            found = self._replies.get(timeout=timeout)
        except queue.Empty:
            self.kill()
            raise WorkerHangs from None
        if found is None:
            raise self._death()
        return found

    def ask(self, do: str, timeout: float, **fields: Any) -> Reply:
        """Give a command and wait for its one answer."""
        self.send(do, **fields)
        return self.reply(timeout)

    def _death(self) -> WorkerDied:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        died = WorkerDied(self._process.returncode, self.last_words())
        self.kill()
        return died

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), LAST_WORDS, max(0, size - LAST_WORDS))
        return text.decode("utf-8", errors="replace").strip()

    def close(self) -> None:
        """Let it end, and see to it that it does."""
        with suppress(OSError):
            assert self._process.stdin is not None
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


def _path() -> str:
    """The worker imports this very package, wherever it lies, and what its parent could import."""
    own = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(filter(None, [own, os.environ.get("PYTHONPATH", "")]))
