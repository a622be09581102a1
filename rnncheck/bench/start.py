"""How the process of a worker is begun, here and in ``early``. Imports little."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

AHEAD = "ahead"  # an argument of a worker: it imports before it is asked for anything
# Inductor's pool of compilers would load the machine while the first cells are timed.
QUIET = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}


def begin_process(
    module: str,
    arguments: Sequence[str] = (),
    *,
    python: str = sys.executable,
    environment: dict[str, str] | None = None,
    folder: Path | None = None,
    passed: Sequence[int] = (),
) -> tuple[subprocess.Popen[str], IO[bytes]]:
    """The process that runs ``module``, and the file of its standard error. It is a group of its
    own, so that nothing that it starts outlives it; ``passed`` are file descriptors that it
    gets."""
    log = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
    process = subprocess.Popen(
        [python, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env={**QUIET, **os.environ, "PYTHONPATH": _path(), **(environment or {})},
        cwd=folder,
        start_new_session=True,
        text=True,
        encoding="utf-8",
        pass_fds=passed,
    )
    return process, log


def _path() -> str:
    """The worker imports this very package, wherever it lies, and what its parent could import."""
    own = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(filter(None, [own, os.environ.get("PYTHONPATH", "")]))
