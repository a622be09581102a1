"""Whether a program shows its fault: it is run in a process that cannot import rnncheck."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 120.0  # for one run: importing torch and TorchRL takes most of it
_ALONE = """\
import runpy, sys
sys.modules["rnncheck"] = None
sys.argv[:] = sys.argv[1:]
sys.path.insert(0, "")
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True)
class Trial:
    """How a program ended, and the last line that it left."""

    code: int
    lines: int
    last: str

    @property
    def shows(self) -> bool:
        """Whether it printed its numbers and exited 1."""
        return self.code == 1 and self.lines > 0 and not self.last


def tried(text: str, folder: Path, *arguments: str) -> Trial:
    """Run the program in ``folder``, where the user's modules are."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "program.py")
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-W", "ignore", "-c", _ALONE, str(path), *arguments]
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Trial(-1, 0, f"it took more than {_SECONDS:g} s")
    raised = "Traceback (most recent call last)" in done.stderr
    last = done.stderr.strip().splitlines()[-1] if raised else ""
    return Trial(done.returncode, len(done.stdout.splitlines()), last)
