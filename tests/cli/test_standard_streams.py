"""Closed, full and broken standard streams, through a shell: no traceback, and the exit code says
what it says elsewhere."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rnncheck.results.store import write_run
from tests.report.canned import BROKEN
from tests.small import PIPELINE, START

ROOT = Path(__file__).parent.parent.parent
FULL = "error: standard output cannot be written: No space left on device\n"
COLLECTING = PIPELINE + "collect: {use: Collector, frames_per_batch: 40, batches: 2}\n"
pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rnncheck.yaml").write_text(COLLECTING)
    write_run(BROKEN, tmp_path / "run.json")
    return tmp_path


def shell(folder: Path, command: str, streams: str) -> subprocess.CompletedProcess[str]:
    """``rnncheck COMMAND STREAMS``; the exit status is that of rnncheck."""
    start = shlex.join([sys.executable, "-c", START])
    line = f"{start} {command} {streams}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done


@pytest.mark.parametrize("command", ["rule", "report run.json", "spec show", "compare run.json ."])
def test_a_full_disk_under_what_only_shows(command: str, folder: Path) -> None:
    (folder / ".rnncheck" / "runs").mkdir(parents=True)
    write_run(BROKEN, folder / ".rnncheck" / "runs" / "latest.json")
    done = shell(folder, command, "> /dev/full")
    assert (done.returncode, done.stderr) == (2, FULL)


@pytest.mark.parametrize("command", ["rule", "report run.json --report jsonl", "spec schema"])
def test_a_reader_that_leaves_is_no_failure(command: str, folder: Path) -> None:
    done = shell(folder, command, "| head -c 5")
    assert (done.returncode, done.stderr, len(done.stdout)) == (0, "", 5)


@pytest.mark.parametrize(
    ("command", "streams", "code"),
    [("rule", ">&-", 0), ("spec show", ">&- 2>&- <&-", 0), ("rule NO", "2>&-", 2),
     ("rule NO", "2> /dev/full", 2)],
)  # fmt: skip
def test_closed_streams(command: str, streams: str, code: int, folder: Path) -> None:
    done = shell(folder, command, streams)
    assert done.returncode == code
    assert done.stdout == done.stderr == ""


SLOW = [pytest.param(one, marks=pytest.mark.slow) for one in ("> /dev/full", ">&- 2>&- <&-")]


@pytest.mark.parametrize("streams", ["2> /dev/full | head -c 5", *SLOW])
def test_a_verdict_stands_whatever_the_streams(streams: str, folder: Path) -> None:
    done = shell(folder, "verify --select WR --report jsonl", streams)
    stored = json.loads((folder / ".rnncheck" / "runs" / "latest.json").read_text())
    assert done.returncode == stored["exit_code"]
    assert "passed" in {check["outcome"] for check in stored["checks"]}
    assert (FULL in done.stderr) == (streams == "> /dev/full")


def test_a_file_that_is_opened_is_no_standard_stream(folder: Path) -> None:
    """What the user's code prints must not end in a file that got the closed stream's number."""
    done = shell(folder, "report run.json --report json=out.json --report console", ">&-")
    assert done.returncode == 0
    assert json.loads((folder / "out.json").read_text())["verdict"] == "failed"
