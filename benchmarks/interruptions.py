"""Two parts of `make attack`: signals at random moments over the commands that run a pipeline.

Each must end with its signal's exit code, print no traceback, leave no process and no temporary
folder, and store nothing that the signal alone has broken.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rnncheck.supervisor.keeper import descendants

ROOT = Path(__file__).parent.parent
START = "from rnncheck.__main__ import main; main()"
COMMANDS = (["verify"], ["gate"], ["bench"], ["selftest"], ["run", "train.py"], ["memory"])
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
# Seconds until the signal: while Python imports, while the pipeline is built, while it is checked.
MOMENTS = ((0.05, 0.6), (0.6, 5.0), (5.0, 20.0))
# A frame of rnncheck's, behind the line that takes Ctrl-C over.
OURS = re.compile(r'File "[^"]*/rnncheck/(?!__init__|__main__)')
PATIENCE = 30.0  # seconds for what was started to be gone; chosen: a loaded machine is slow


@dataclass(frozen=True)
class Press:
    """A signal for a command, so many seconds after its start; ``twice``: and again at once."""

    command: list[str]
    signal: signal.Signals
    after: float
    twice: bool = False


def interrupts(count: int) -> Iterator[str]:
    """Ctrl-C, every fifth of them pressed twice."""
    # A shell starts what runs behind its back with Ctrl-C ignored, and a command inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    draw = random.Random(0)
    for number in range(count):
        yield answered(_press(draw, number, signal.SIGINT, twice=number % 5 == 4))


def kills(count: int) -> Iterator[str]:
    """SIGTERM and SIGKILL in turn."""
    draw = random.Random(1)
    for number in range(count):
        by = (signal.SIGTERM, signal.SIGKILL)[number // len(COMMANDS) % 2]
        yield answered(_press(draw, number, by))


def _press(draw: random.Random, number: int, by: signal.Signals, *, twice: bool = False) -> Press:
    after = draw.uniform(*draw.choice(MOMENTS))
    return Press(COMMANDS[number % len(COMMANDS)], by, after, twice)


def answered(press: Press) -> str:
    """Empty, or what was wrong with the answer."""
    with tempfile.TemporaryDirectory() as name:
        folder, scratch = Path(name), Path(name) / "tmp"
        scratch.mkdir()
        shutil.copytree(ROOT / "tests" / "cli" / "ending", folder, dirs_exist_ok=True)
        wrong = list(_wrong(press, folder, scratch))
    after = f"{press.signal.name} after {press.after:.2f} s" + (" twice" if press.twice else "")
    return f"{press.command[0]}, {after}: {'; '.join(wrong)}" if wrong else ""


def _wrong(press: Press, folder: Path, scratch: Path) -> Iterator[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TMPDIR": str(scratch)}
    process = subprocess.Popen(
        [sys.executable, "-c", START, *press.command], cwd=folder, env=env,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with suppress(subprocess.TimeoutExpired):
        process.wait(press.after)
    ended, started = process.poll() is not None, descendants(process.pid)
    for _ in range(1 + press.twice):
        process.send_signal(press.signal)
    _, said = process.communicate(timeout=200)
    starting = process.returncode == -press.signal or "KeyboardInterrupt" in said
    if ended or (starting and not OURS.search(said)):
        return  # it was through, or Python itself was still starting, which may even go on
    if process.returncode != CODES[press.signal]:
        yield f"exit {process.returncode}"
    if "Traceback" in said or "internal error" in said:
        yield said[-300:]
    yield from _left(started, scratch)
    yield from _stored(folder)


def _left(started: set[int], scratch: Path) -> Iterator[str]:
    deadline, folders = time.monotonic() + PATIENCE, list[Path]()
    while time.monotonic() < deadline:
        started = {one for one in started if Path(f"/proc/{one}").exists()}
        folders = [one for one in scratch.iterdir() if not one.name.startswith("torchinductor")]
        if not started and not folders:
            return
        time.sleep(0.05)
    yield f"left: processes {started}, folders {folders}"


def _stored(folder: Path) -> Iterator[str]:
    """What the runs hold that the pipeline, which is healthy, cannot have given."""
    for file in (folder / ".rnncheck" / "runs").glob("*.json"):
        run = json.loads(file.read_text())
        rows = [*run.get("checks", ()), *run.get("stages", ())]  # another kind may have none
        if any(row["outcome"] in ("error", "failed") for row in rows):
            yield f"{file.name} holds an error"
        if run.get("exit_code", 0) not in (0, *CODES.values()):
            yield f"{file.name} has exit code {run['exit_code']}"
