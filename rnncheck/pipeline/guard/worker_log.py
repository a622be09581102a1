"""What the worker processes of a ParallelEnv say when they fail: kept in a file, read by the
parent."""

from __future__ import annotations

import multiprocessing
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rnncheck.errors import Place
from rnncheck.pipeline.guard.user_frames import Trouble, display_path, is_user_file

HEAD = "Traceback (most recent call last):\n"
FRAME = re.compile(
    r'^  File "(?P<path>.+)", line (?P<line>\d+), in .+\n(?:    .*\n)*', re.MULTILINE
)


class WorkerLog:
    """The stderr of all workers of one spec, in a folder of its own that ``close`` removes."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rnncheck-"))
        self.path = self._folder / "workers.txt"

    def trouble(self) -> Trouble | None:
        """The last exception that ended a worker, with the user's frames of it."""
        text = self.path.read_text(errors="replace") if self.path.exists() else ""
        if HEAD not in text:
            return None
        body = text.rpartition(HEAD)[2]
        frames = [found for found in FRAME.finditer(body) if is_user_file(found["path"])]
        message = FRAME.sub("", body).strip().splitlines()
        place = _place(frames[-1]) if frames else None
        told = "".join(found[0] for found in frames).rstrip()
        return Trouble(message[0] if message else "a worker process ended", place, told)

    def close(self) -> None:
        """Forget the log."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _place(frame: re.Match[str]) -> Place:
    return Place(display_path(frame["path"]), int(frame["line"]))


def logged(make: Callable[[], Any], path: Path) -> Any:
    """Call ``make``; in a worker process everything that is written to stderr goes to ``path``
    first."""
    if multiprocessing.parent_process() is not None:
        sys.stderr = path.open("a", buffering=1)
    return make()
