"""Ctrl-C, SIGTERM, SIGKILL while a pipeline is verified: what is kept, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rnncheck.results.exit_codes import ExitCode
from rnncheck.supervisor.keeper import descendants
from tests.cli import test_verify
from tests.cli.test_verify import ROOT, latest, outcomes, use_env
from tests.small import START

folder = test_verify.folder


def interrupted(folder: Path, *when: str, by: signal.Signals = signal.SIGINT) -> tuple[int, str]:
    """Press Ctrl-C once an event that holds all of ``when`` is out; the exit code and all that is
    said. Nothing that the command started is left, and no temporary folder."""
    scratch = folder / "tmp"
    scratch.mkdir()
    env = os.environ | {"COLUMNS": "160", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    env["TMPDIR"] = str(scratch)
    process = subprocess.Popen(
        [sys.executable, "-c", START, "verify", "--report", "jsonl"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal's Ctrl-C reaches the whole group
    )
    assert process.stdout is not None
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if all(word in line for word in when):
                started = descendants(process.pid)
                os.killpg(process.pid, by)
                break
        said += process.communicate(timeout=120)
        assert not survivors({process.pid, *started})
        assert not [one for one in scratch.iterdir() if not one.name.startswith("torchinductor")]
        return process.returncode, "".join(said)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def survivors(processes: set[int]) -> set[int]:
    """Those that are still there; they get a moment to go."""
    left = processes
    for _ in range(300):  # 30 s: a busy machine takes its time
        if not (left := {one for one in left if Path(f"/proc/{one}").exists()}):
            break
        time.sleep(0.1)
    return left


@pytest.mark.parametrize(
    "vectorize", ["", pytest.param("  workers: 2\n  vectorize: parallel\n", marks=pytest.mark.slow)]
)
def test_ctrl_c_while_collecting_stores_what_there_is(folder: Path, vectorize: str) -> None:
    use_env("slow")
    text = Path("rnncheck.yaml").read_text().replace("policy:", vectorize + "policy:")
    Path("rnncheck.yaml").write_text(text.replace("frames_per_batch: 40", "frames_per_batch: 4000"))
    code, said = interrupted(folder, "stage-started", "collect")
    assert code == ExitCode.INTERRUPTED
    assert "Traceback" not in said
    stored = latest(folder)
    assert (stored["verdict"], stored["exit_code"]) == ("interrupted", 130)
    passed = [s["stage"] for s in stored["stages"] if s["outcome"] == "passed"]
    assert passed == ["env", "policy"]
    assert any("interrupted during stage collect" in notice for notice in stored["notices"])


@pytest.mark.slow
def test_sigterm_ends_it_as_ctrl_c_does_with_an_exit_code_of_its_own(folder: Path) -> None:
    use_env("slow")
    code, said = interrupted(folder, "check-finished", "WR101", by=signal.SIGTERM)
    assert code == ExitCode.TERMINATED
    assert "Traceback" not in said
    stored = latest(folder)
    assert (stored["verdict"], stored["exit_code"]) == ("interrupted", 143)


@pytest.mark.slow
def test_sigkill_leaves_no_process_and_no_folder(folder: Path) -> None:
    use_env("slow")
    code, _ = interrupted(folder, "check-finished", "WR101", by=signal.SIGKILL)
    assert code == -signal.SIGKILL


def test_ctrl_c_while_checking_stores_what_was_found(folder: Path) -> None:
    use_env("slow")
    code, said = interrupted(folder, "check-finished", "WR101")
    assert code == ExitCode.INTERRUPTED
    assert "Traceback" not in said
    stored = latest(folder)
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert events[-1]["run"] == stored
    assert stored["verdict"] == "interrupted"
    assert outcomes(stored)["WR101"] == "passed"
    assert "CL409" not in outcomes(stored)
    assert any("CL409" in notice for notice in stored["notices"])  # named as not run
