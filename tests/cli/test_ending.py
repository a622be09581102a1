"""Whatever the pipeline's code does to its process, the command tells where, and exits with 3."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import cycle, product
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests import warm
from tests.small import START

ROOT = Path(__file__).parents[2]
STAGES = ("env", "policy", "critic", "collect", "advantage", "replay", "loss")
CHECKS = ("bd301", "cl406", "vl601", "ls703", "gr801")
PLACES = (*STAGES, *CHECKS)
WAYS = (
    "_exit-0", "SystemExit", "segfault", "fork", "own", "hang", "kill", "KeyboardInterrupt",
    "abort", "atexit", "GeneratorExit", "_exit-3",
)  # fmt: skip
CHEAP = ("_exit-0", "SystemExit", "segfault", "atexit")
ONCE = tuple(zip(PLACES, cycle(WAYS), strict=False))  # each place and each way
REST = tuple(pair for pair in product(PLACES, WAYS) if pair not in ONCE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copytree(Path(__file__).parent / "ending", tmp_path, dirs_exist_ok=True)
    return tmp_path


def run(
    folder: Path, *args: str, way: str = "", place: str = ""
) -> subprocess.CompletedProcess[str]:
    return python(folder, START, *args, way=way, place=place)


def python(
    folder: Path, program: str, *args: str, way: str, place: str
) -> subprocess.CompletedProcess[str]:
    env = {"PYTHONPATH": str(ROOT), "COLUMNS": "400", "RNNCHECK_WAY": way, "RNNCHECK_PLACE": place}
    return warm.run(program, *args, cwd=folder, env=os.environ | env, limit=200.0)


def program(folder: Path, text: str, *, way: str = "", place: str = "") -> str:
    """What a program prints that ends well."""
    done = python(folder, text, way=way, place=place)
    assert done.returncode == 0, done.stderr
    return done.stdout


def latest(folder: Path) -> dict[str, Any]:
    stored = json.loads((folder / ".rnncheck" / "runs" / "latest.json").read_text())
    assert isinstance(stored, dict)
    return stored


SELECTED = [word for check in CHECKS for word in ("--select", check.upper())]


def assert_told(folder: Path, place: str, way: str) -> None:
    done = run(folder, "verify", *SELECTED, way=way, place=place)
    assert done.returncode in (ExitCode.USAGE, ExitCode.INTERNAL), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode == ExitCode.USAGE:  # a factory that raises is bad input, told by its line
        assert place in STAGES and "sudden.py" in done.stderr
        return
    stored = latest(folder)
    assert stored["exit_code"] == ExitCode.INTERNAL
    if way == "atexit":
        assert "after the last check" in stored["notices"][-1]
        return
    ends = [row["stage"] for row in stored["stages"] if row["outcome"] == "error"]
    ends += [row["code"].lower() for row in stored["checks"] if row["outcome"] == "error"]
    assert place in ends
    assert {row["code"] for row in stored["checks"]} == {check.upper() for check in CHECKS}


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("place", "way"),
    [pytest.param(*one, marks=() if one[1] in CHEAP else pytest.mark.slow) for one in ONCE],
)
def test_no_way_of_ending_is_silent(folder: Path, place: str, way: str) -> None:
    assert_told(folder, place, way)


@pytest.mark.slow
@pytest.mark.parametrize(("place", "way"), REST)
def test_no_way_of_ending_is_silent_anywhere(folder: Path, place: str, way: str) -> None:
    assert_told(folder, place, way)


def test_a_gate_whose_check_ends_the_process_is_no_passed_gate(folder: Path) -> None:
    done = run(folder, "gate", "--select", "BD301", way="_exit-0", place="bd301")
    assert done.returncode == ExitCode.INTERNAL, done.stdout + done.stderr
    (check,) = latest(folder)["checks"]
    assert (check["outcome"], check["reason"]) == (
        "error",
        "ended the process, with exit code 0",
    )


@pytest.mark.slow
def test_a_selftest_plants_nothing_into_what_ends_the_process(folder: Path) -> None:
    done = run(
        folder, "selftest", "--fault", "graph-cut", "--report", "json", way="_exit-0", place="loss"
    )
    assert done.returncode == ExitCode.INTERNAL, done.stderr
    told = json.loads(done.stdout)
    assert told["exit_code"] == ExitCode.INTERNAL and not told["faults"]
    assert "the loss stage" in told["healthy"]["notices"][-1]


PLANTED = """
import os
from dataclasses import replace
from pathlib import Path
from rnncheck.cli.planting import look_at_health, planted
from rnncheck.faults.registry import select_faults
from rnncheck.spec.load import load_spec
from rnncheck.supervisor.signals import arm

arm()
spec = load_spec(Path("rnncheck.yaml"), ["verify.select=[GR801, GR802]"])
cut, broken = select_faults(["graph-cut"])[0], select_faults(["loss-not-finite"])[0]
ending = replace(cut, name="ending", plant=lambda parts: os._exit(0))
for one in planted(spec, [ending, broken], look_at_health(spec)):
    print(one.fault, one.ending, one.reason)
"""


@pytest.mark.slow
def test_a_fault_that_ends_the_process_is_told_and_the_next_one_planted(folder: Path) -> None:
    assert program(folder, PLANTED).splitlines() == [
        "ending ended-process ended the process, with exit code 0",
        "loss-not-finite caught ",
    ]


@pytest.mark.slow
def test_a_sweep_whose_cells_end_their_process_recommends_nothing(folder: Path) -> None:
    done = run(folder, "bench", way="_exit-0", place="collect")
    assert done.returncode == ExitCode.NOT_SHOWN, done.stdout + done.stderr
    status = {row["status"] for row in latest(folder)["cells"]}
    assert "crashed" in status
    assert status <= {"crashed", "skipped"}  # a slow machine has no time left for some


IN_PROCESS = """
import rnncheck, sudden
from rnncheck.results.model import Outcome
run = rnncheck.verify("rnncheck.yaml", select=["WR101", "LS703"])
_, check = run.checks
print(run.exit_code, check.outcome, check.reason)
"""


@pytest.mark.parametrize(
    "way", [pytest.param("SystemExit", marks=pytest.mark.slow), "KeyboardInterrupt"]
)
def test_in_python_an_exit_is_an_error_too(folder: Path, way: str) -> None:
    told = program(folder, IN_PROCESS, way=way, place="ls703")
    assert told.startswith("3 error the pipeline raised")
    assert "sudden.py" in told
