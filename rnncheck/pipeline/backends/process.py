"""The parent's side of a worker process: start it, wait a stated time, leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

import rnncheck
from rnncheck.pipeline.backends.job import FAILED, Request, TrialAnswer, load_answer
from rnncheck.pipeline.backends.trial import Refused

WORKER = "rnncheck.pipeline.backends.worker"
PAUSE = 0.05  # seconds between two looks at the worker; chosen: starting it takes some seconds


class NoAnswer(Refused):
    """The worker gave no answer: it hung, crashed or could not adapt TorchRL. Nothing is known of
    the backend."""


class TrialWorker:
    """A process that answers one request; a context manager that kills it, and what it started, at
    the end."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self._folder = tempfile.TemporaryDirectory(prefix="rnncheck-")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        """Where request and answers lie."""
        return Path(self._folder.name)

    def __enter__(self) -> TrialWorker:
        try:
            self.request.save(self.folder)
            with (self.folder / "stderr").open("wb") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", WORKER, str(self.folder)],
                    env=_environment(self.request.interpret),
                    cwd=self.folder,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    start_new_session=True,
                )
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if process.stdin is not None:
                process.stdin.close()
            process.wait()
        self._folder.cleanup()

    def answers(self, seconds: float) -> list[TrialAnswer]:
        """One answer per job; a job without one gets a NoAnswer that says why."""
        process = self._process
        assert process is not None
        end = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            time.sleep(PAUSE)
        reason = self._reason(process.poll(), seconds)
        found = (load_answer(self.folder, i) for i in range(len(self.request.jobs)))
        return [NoAnswer(reason) if answer is None else answer for answer in found]

    def _reason(self, code: int | None, seconds: float) -> str:
        if code is None:
            return f"its worker process did not answer within {seconds:g} s"
        failed = self.folder / FAILED
        if failed.exists():
            return failed.read_text(encoding="utf-8")
        lines = (self.folder / "stderr").read_text(errors="replace").strip().splitlines()
        said = f": {lines[-1]}" if lines else ""
        return f"its worker process ended with {_ending(code)}{said}"


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def _environment(interpret: bool) -> dict[str, str]:
    root = str(Path(rnncheck.__file__).parent.parent)
    given = os.environ.get("PYTHONPATH")
    chosen = {
        "PYTHONPATH": os.pathsep.join([root, given] if given else [root]),
        "OMP_NUM_THREADS": "1",  # small tensors: a second thread only costs
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no pool of compiling processes
    }
    if interpret:
        chosen["TRITON_INTERPRET"] = "1"
    return {**os.environ, **chosen}
