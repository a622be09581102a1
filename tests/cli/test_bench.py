"""``rnncheck bench`` from the outside: cells that misbehave cost themselves alone, and nothing is
lost."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rnncheck.supervisor.keeper import descendants
from tests import warm
from tests.small import START

Runner = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).parents[2]
SPEC = "fixtures/specs/cartpole_dqn.yaml"
SMALL = [
    "--set", "bench.shapes=[{batch: 4, steps: 8}]", "--set", "bench.resets=[0.1]",
    "--set", "bench.interval=0.5", "--set", "bench.budget=240", "--set", "bench.goal=times",
]  # fmt: skip
# Two variants that compile nothing.
PLAIN = ["--set", "bench.backend=[pad]", "--set", "bench.python_based=[false, true]"]


def cells(path: Path) -> dict[str, dict[str, Any]]:
    return {cell["label"]: cell for cell in json.loads(path.read_text())["cells"]}


@pytest.mark.slow
def test_plan_prints_cells_and_runs_nothing(rnncheck: Runner) -> None:
    done = rnncheck("bench", SPEC, *PLAIN, "--plan")
    assert done.returncode == 0
    assert "forward, 32 x 64, 0.03 resets" in done.stdout
    assert "nothing was measured" in done.stdout
    assert re.search(r"10 cells, (about|at least) \d+ s of at most 240, by a probe", done.stdout)


@pytest.mark.slow
def test_a_sweep_measures_judges_and_recommends(rnncheck: Runner, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    done = rnncheck("bench", SPEC, *SMALL, "--report", "console", "--report", f"json={out}")
    assert done.returncode == 0, done.stderr
    assert "for training (train, 4 x 8, 0.1 resets)" in done.stdout
    rows = cells(out)
    assert len(rows) == 6
    for row in rows.values():
        assert row["status"] == "ok"
        assert row["timing"]["low"] <= row["timing"]["median"] <= row["timing"]["high"]
        assert len(row["samples"]["wall"]) == row["timing"]["samples"] > 0
        assert row["accuracy"]["output"] <= row["accuracy"]["output_bound"]
        assert row["memory"]["peak"] > 0
    scan = rows["scan | train, 4 x 8, 0.1 resets"]
    assert scan["ratio"]["reference"] == "pad"
    assert scan["accuracy"]["gradient"] <= scan["accuracy"]["gradient_bound"]
    again = rnncheck("report", str(out), "--report", "csv")
    assert again.stdout.count("\n") == 7
    same = rnncheck("compare", str(out), str(out), "--json")
    assert {row["change"] for row in json.loads(same.stdout)} <= {"same", "unclear"}


def test_a_budget_that_does_for_nothing_starts_nothing_and_says_so(
    rnncheck: Runner, tmp_path: Path
) -> None:
    out = tmp_path / "run.json"
    done = rnncheck("bench", SPEC, "--set", "bench.budget=2", "--report", f"json={out}")
    assert done.returncode == 4, done.stderr
    rows = cells(out)
    assert len(rows) == 10
    for row in rows.values():
        assert row["status"] == "skipped"
        assert re.match(r"not measured: budget: \d\.\d s were left, and preparing", row["reason"])


@pytest.mark.slow
def test_a_quick_sweep_says_that_its_answer_is_a_first_one(
    rnncheck: Runner, tmp_path: Path
) -> None:
    out = tmp_path / "run.json"
    done = rnncheck("bench", SPEC, *SMALL, *PLAIN, "--quick", "--report", f"json={out}")
    rows = cells(out).values()
    assert {row["cell"]["phase"] for row in rows} == {"train", "act"}
    for row in rows:  # on a loaded machine 18 seconds may do for none of them
        assert row["status"] == "ok" or row["reason"].startswith("not measured: budget: ")
    told = json.loads(out.read_text())["recommendations"]
    assert bool(told) == any(row["status"] == "ok" for row in rows) == (done.returncode == 0)
    assert all("this is a first answer" in one["open"][-1] for one in told)


@pytest.mark.slow
def test_a_cell_that_hangs_dies_or_fills_the_memory_costs_itself_alone(
    rnncheck: Runner, tmp_path: Path
) -> None:
    out = tmp_path / "run.json"
    done = rnncheck("bench", "fixtures/bench/troubled.yaml", "--report", f"json={out}")
    assert done.returncode == 0, done.stderr
    found = {row["cell"]["batch"]: (row["status"], row["reason"]) for row in cells(out).values()}
    assert found[2][0] == found[4][0] == "ok"
    assert found[3] == ("timeout", "no answer within 20 s")
    assert found[5] == ("crashed", "the process ended with SIGSEGV")
    assert found[7][1].startswith("the process ended with SIGKILL")
    assert found[11][0] == "oom"
    assert found[13] == ("failed", "ValueError: thirteen rows are too many")


def test_what_cannot_run_is_a_row_with_its_reason(rnncheck: Runner, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    more = ["--set", "bench.backend=[triton]", "--set", "bench.phases=[forward]"]
    done = rnncheck("bench", SPEC, *SMALL, *more, "--report", f"json={out}")
    assert done.returncode == 0, done.stderr
    row = cells(out)["triton | forward, 4 x 8, 0.1 resets"]
    assert row["status"] == "cannot"
    assert row["reason"]


def test_a_spec_that_cannot_be_built_is_one_sentence(rnncheck: Runner) -> None:
    done = rnncheck("bench", SPEC, *SMALL, "--set", "env.env_name=NoSuchEnv-v9")
    assert done.returncode == 2
    assert "error: the pipeline cannot be built" in done.stderr
    assert "Traceback" not in done.stderr


class Started:
    """``rnncheck bench SPEC ARGS...`` on a spec of its own, left running."""

    def __init__(self, folder: Path, *args: str) -> None:
        shutil.copy(ROOT / SPEC, folder / "spec.yaml")
        self.args = ["bench", str(folder / "spec.yaml"), *args]
        self.env = os.environ | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        self.runs = folder / ".rnncheck" / "runs"
        self.journal = self.runs / "sweep.jsonl"
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *self.args],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for_lines(self, count: int) -> None:
        until = time.monotonic() + 120
        while not self.journal.exists() or self.journal.read_text().count("\n") < count:
            assert time.monotonic() < until
            assert self.process.poll() is None
            time.sleep(0.1)

    def again(self, *args: str) -> subprocess.CompletedProcess[str]:
        return warm.run(START, *self.args, *args, cwd=ROOT, env=self.env, limit=200.0)

    def latest(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.runs / "latest.json").read_text())["cells"]
        return found


def test_ctrl_c_keeps_what_is_finished_and_resume_goes_on(tmp_path: Path) -> None:
    sweep = Started(tmp_path, *SMALL, *PLAIN, "--set", "bench.phases=[forward, act]")
    sweep.wait_for_lines(2)
    sweep.process.send_signal(signal.SIGINT)
    sweep.process.communicate(timeout=60)
    assert sweep.process.returncode == 130
    assert [cell for cell in sweep.latest() if cell["reason"] == "interrupted"]
    before = sweep.journal.read_text()
    done = sweep.again("--resume")
    assert done.returncode == 0, done.stderr
    assert sweep.journal.read_text().startswith(before)
    assert len(sweep.latest()) == 4
    changed = sweep.again("--resume", "--seed", "5")
    assert changed.returncode == 2
    assert "its spec is another" in changed.stderr


def test_a_journal_of_a_stranger_is_one_sentence_and_harmless(
    rnncheck: Runner, tmp_path: Path
) -> None:
    shutil.copy(ROOT / SPEC, tmp_path / "spec.yaml")
    journal = tmp_path / ".rnncheck" / "runs" / "sweep.jsonl"
    journal.parent.mkdir(parents=True)
    head = {"head": {"format": 1, "spec": "\x1b]0;owned\x07\x1b[31m", "code": "\r\n::error::x"}}
    for text in (json.dumps(head) + "\n", '{"head": {}}\n{"key": "\x1b[2J"}\n', "\x1b[2J\n"):
        journal.write_text(text, encoding="utf-8")
        done = rnncheck("bench", str(tmp_path / "spec.yaml"), "--resume")
        assert done.returncode == 2
        assert done.stdout == ""
        assert "error: " in done.stderr and "Traceback" not in done.stderr
        assert "\x1b" not in done.stderr and "\n::" not in done.stderr
        assert journal.read_text(encoding="utf-8") == text


@pytest.mark.slow  # the sweep that Ctrl-C ends goes on in the same way
def test_a_full_disk_costs_no_report_and_resume_goes_on(tmp_path: Path) -> None:
    sweep = Started(tmp_path, *SMALL, *PLAIN, "--set", "bench.phases=[forward, act]")
    sweep.wait_for_lines(2)
    room = sweep.journal.stat().st_size + 5  # bytes: the next line is cut off
    for process in (sweep.process.pid, *descendants(sweep.process.pid)):
        if b"rnncheck.bench.worker" not in Path(f"/proc/{process}/cmdline").read_bytes():
            resource.prlimit(process, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    report, said = sweep.process.communicate(timeout=100)
    assert sweep.process.returncode == 0
    assert "the sweep's results cannot be written: File too large" in " ".join(said.split())
    assert said.splitlines()[-1].startswith("error: the result is not written: ")
    assert "4 cells: 4 ok" in " ".join(report.split())
    before = sweep.journal.read_text().rpartition("\n")[0] + "\n"
    measured = before.count("\n") - 1
    assert 1 <= measured < 4
    done = sweep.again("--resume")
    assert done.returncode == 0, done.stderr
    assert sweep.journal.read_text().startswith(before)
    assert sweep.journal.read_text().count("\n") == 5
    assert [cell["status"] for cell in sweep.latest()] == ["ok"] * 4
