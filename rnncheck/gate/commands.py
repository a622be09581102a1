"""Commands of other tools, whose failure is one sentence."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from rnncheck.errors import UserError

# Seconds that an installation may take. Chosen, not measured: torch is some hundred MB without CUDA
# and some GB with it, which a slow line brings in that time.
SETTLING = 1800.0
_TOLD = 300  # characters of the command's output that are told; chosen: a line that can be read


def run_command(command: Sequence[str], folder: Path, problem: str) -> str:
    """Standard output. Raises UserError with ``problem`` and the command's last line."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SETTLING)
    except FileNotFoundError as error:
        raise UserError(f"{problem}: {command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{problem}: {command[0]} took more than {SETTLING:.0f} s") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it ended without a word"]
        raise UserError(f"{problem} ({lines[-1][-_TOLD:]})")
    return done.stdout
