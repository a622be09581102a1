"""Ctrl-C and SIGTERM while a script is watched: the exit code, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from rnncheck.supervisor.keeper import descendants
from rnncheck.supervisor.scripts import OVERDUE
from tests.cli.test_interruption import survivors
from tests.small import START
from tests.watching.scripts import SCRIPTS
from tests.watching.test_endings import ACTS

ROOT = Path(__file__).parents[2]
CODES = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}
SLEEPS = 'import time\nprint("begun", flush=True)\ntime.sleep(300)\n'
SWALLOWS = """
import time
print("begun", flush=True)
while True:
    try:
        time.sleep(0.05)
    except BaseException:
        pass
"""
IGNORES = """
import signal
import time
for one in (signal.SIGINT, signal.SIGTERM):
    signal.signal(one, signal.SIG_IGN)
print("begun", flush=True)
time.sleep(300)
"""
STARTS_ONE = """
import multiprocessing
import time
worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(300,))
worker.start()
print("begun", flush=True)
worker.join()
"""


def interrupted(
    script: Path, scratch: Path, mark: str, by: signal.Signals
) -> tuple[int, dict[str, Any]]:
    """Send the signal once ``mark`` is said; the exit code, and the run as it was told last.

    Nothing that the command started is left, and no temporary folder.
    """
    scratch.mkdir()
    env = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)}
    process = subprocess.Popen(
        [sys.executable, "-c", START, "run", "--report", "jsonl", str(script)],
        cwd=script.parent,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a terminal's Ctrl-C reaches the whole group
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if mark in line:
                started = descendants(process.pid)
                os.killpg(process.pid, by)
                break
        said = process.communicate(timeout=120)[0]
        assert "Traceback" not in said
        assert not survivors({process.pid, *started})
        assert not [one for one in scratch.iterdir() if not one.name.startswith("torchinductor")]
        told = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        return process.returncode, told[-1]["run"]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "by",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)],
    ids=lambda one: one.name,
)
@pytest.mark.parametrize(
    "text",
    [
        SLEEPS,
        pytest.param(SWALLOWS, marks=pytest.mark.slow),
        pytest.param(IGNORES, marks=pytest.mark.slow),
        pytest.param(STARTS_ONE, marks=pytest.mark.slow),
    ],
    ids=["sleeps", "swallows", "ignores", "worker"],
)
def test_a_script_is_interrupted(tmp_path: Path, text: str, by: signal.Signals) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    code, run = interrupted(script, tmp_path / "scratch", "begun", by)
    assert (code, run["verdict"], run["exit_code"]) == (CODES[by], "interrupted", CODES[by])
    assert run["checks"] == []


@pytest.mark.slow
@pytest.mark.parametrize("by", CODES, ids=lambda one: one.name)
@pytest.mark.parametrize("mark", ['"run-started"', '"check-finished"'], ids=["before", "behind"])
def test_it_is_interrupted_before_and_behind_the_script(
    tmp_path: Path, mark: str, by: signal.Signals
) -> None:
    script = tmp_path / "script.py"
    script.write_text((SCRIPTS / "own_actor_critic.py").read_text())
    code, run = interrupted(script, tmp_path / "scratch", mark, by)
    assert (code, run["verdict"], run["exit_code"]) == (CODES[by], "interrupted", CODES[by])
    assert bool(run["checks"]) == (mark == '"check-finished"')


CAUGHT = """
import time
print("begun", flush=True)
try:
    while True:
        {}
        time.sleep(0.02)
except {}:
    print("saved", flush=True)
{}
"""
# What is caught and what the script does behind it; what is said of it.
CATCHES = {
    "ends": (CAUGHT.format("pass", "KeyboardInterrupt", ""), "ended by itself"),
    "exits": (CAUGHT.format("pass", "KeyboardInterrupt", "exit(1)"), "ended by itself"),
    "goes-on": (
        CAUGHT.format("pass", "KeyboardInterrupt", "time.sleep(300)"),
        "was ended from inside",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", CATCHES)
def test_a_script_that_catches_ctrl_c_is_judged_by_what_it_did(tmp_path: Path, how: str) -> None:
    behind, words = CATCHES[how]
    script = tmp_path / "script.py"
    script.write_text(ACTS + behind)
    code, run = interrupted(script, tmp_path / "scratch", "begun", signal.SIGINT)
    said = f"the script caught Ctrl-C and {words}; what was seen until then is judged"
    assert said in run["notices"]
    (train,) = [one for one in run["stages"] if one["stage"] == "train"]
    assert train["outcome"] == "could-not-look"
    (memory,) = [one for one in run["guarantees"] if one["name"] == "memory"]
    assert (code, memory["standing"]) == (ExitCode.NOT_SHOWN, "shown")


@pytest.mark.slow
@pytest.mark.parametrize("text", [SWALLOWS, IGNORES], ids=["swallows", "ignores"])
def test_one_that_does_not_end_is_ended_with_a_word(tmp_path: Path, text: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    code, run = interrupted(script, tmp_path / "scratch", "begun", signal.SIGINT)
    assert (code, run["verdict"]) == (ExitCode.INTERRUPTED, "interrupted")
    assert OVERDUE in run["notices"]
