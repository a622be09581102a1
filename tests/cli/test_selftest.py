"""``rnncheck selftest``, through the CLI."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rnncheck.cli.app import app
from rnncheck.cli.selftest import SelftestState
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.planting import Attempt, Ending
from rnncheck.spec.load import spec_from_text
from tests.small import PIPELINE, START

ROOT = Path(__file__).parent.parent.parent
SPEC = (
    PIPELINE
    + """\
collect: {use: Collector, frames_per_batch: 80, batches: 2}
verify: {select: [WR, BD301, CL]}
"""
)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "rnncheck.yaml"
    path.write_text(SPEC)
    return path


def selftest(*args: object) -> Result:
    return CliRunner().invoke(app, ["selftest", *map(str, args)], env={"COLUMNS": "120"})


def test_faults_are_caught_and_shown(spec: Path) -> None:
    done = selftest(spec, "--fault", "flag-dropped", "--fault", "primer-missing")
    assert done.exit_code == ExitCode.VERIFIED, done.output
    assert "flag-dropped    caught by WR109" in done.stdout
    assert "primer-missing  caught by WR103" in done.stdout
    assert "2 caught; " in done.stdout
    assert "1/2 flag-dropped" in done.stderr


def test_what_cannot_apply_says_why_and_is_no_success(spec: Path) -> None:
    done = selftest(spec, "--fault", "loss-not-finite", "--set", "verify.select=[WR, GR]")
    assert done.exit_code == ExitCode.NOT_SHOWN, done.output
    assert "cannot apply: the spec has no loss stage" in done.stdout


def test_a_pipeline_that_is_not_healthy_is_refused(spec: Path) -> None:
    done = selftest(spec, "--set", "env.primers=manual", "--fault", "flag-dropped")
    assert done.exit_code == ExitCode.FAILED
    assert "not healthy without any fault" in done.stdout
    assert "failed WR103 missing-state-primer" in done.stdout
    assert "caught" not in done.stdout


def test_the_list_names_them_with_their_checks(spec: Path) -> None:
    done = selftest("--list", "--fault", "primer")
    assert done.exit_code == 0
    assert "primer-missing  (env; WR103, CL401)" in done.stdout
    assert "No reset gives the state." in done.stdout
    assert "flag-dropped" not in done.stdout


@pytest.mark.slow
def test_json_to_standard_output_and_to_a_file(spec: Path, tmp_path: Path) -> None:
    done = selftest(spec, "--fault", "flag-dropped", "--report", "json", "--seed", 3)
    result = json.loads(done.stdout)
    assert (result["command"], result["seed"], result["exit_code"]) == ("selftest", 3, 0)
    assert result["faults"][0]["fault"] == "flag-dropped"
    assert result["faults"][0]["ending"] == "caught"
    assert result["healthy"]["exit_code"] == 0
    path = tmp_path / "result.json"
    done = selftest(spec, "--fault", "flag-dropped", "-q", "--report", f"json={path}")
    assert json.loads(path.read_text())["faults"][0]["by"] == ["WR109"]
    assert done.stdout.count("\n") == 1


@pytest.mark.slow
def test_html_says_which_were_caught_and_what_is_sick(spec: Path, tmp_path: Path) -> None:
    path = tmp_path / "faults.html"
    done = selftest(
        *(spec, "--fault", "flag-dropped", "--fault", "loss-not"),
        *("--report", f"html={path}", "--report", "json"),
    )
    assert json.loads(done.stdout)["exit_code"] == 0
    told = " ".join(re.sub("<[^>]+>", " ", path.read_text()).split())
    assert "rnncheck selftest: 1 caught, 1 cannot apply" in told
    assert "Every fault that applies was caught: 1." in told
    assert "WR109 1 flag-dropped" in told
    assert "are left out" in told  # what the other one expects
    selftest(spec, "--set", "env.primers=manual", "--report", f"html={path}")
    told = path.read_text()
    assert "not healthy without any fault: repair it first" in told
    assert "WR103 missing-state-primer" in told


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--report", "json", "--report", "html"], "json and html would mix"),
        (["--fault", "flag-droped"], "did you mean 'flag-dropped'"),
        (["--report", "junit"], "selftest has no report format 'junit'"),
        (["--report", "json=/nowhere/x.json"], "does not exist"),
        (["--set", "polici=1"], "policy"),
    ],
)
def test_mistakes_are_usage_errors(spec: Path, args: list[str], said: str) -> None:
    done = selftest(spec, *args)
    assert done.exit_code == ExitCode.USAGE
    assert said in done.stderr


@pytest.mark.slow
def test_all_checks_are_asked_on_request(spec: Path) -> None:
    done = selftest(spec, "--fault", "recorded-flag-lost", "--all-checks", "--report", "json")
    by = json.loads(done.stdout)["faults"][0]["by"]
    assert "CL405" in by


def test_exit_codes() -> None:
    def ending(*endings: Ending, stopped: ExitCode | None = None) -> ExitCode:
        made = [Attempt("x", "env", "", (), one) for one in endings]
        outcome = SelftestState(spec_from_text(SPEC, "x.yaml"), attempts=made, stopped=stopped)
        return outcome.exit_code

    assert ending(Ending.CAUGHT, Ending.CANNOT_APPLY) is ExitCode.VERIFIED
    assert ending(Ending.CAUGHT, Ending.MISSED) is ExitCode.FAILED
    assert ending(Ending.CANNOT_APPLY) is ExitCode.NOT_SHOWN
    assert ending(Ending.CAUGHT, stopped=ExitCode.INTERRUPTED) is ExitCode.INTERRUPTED


@pytest.mark.slow
def test_an_interruption_keeps_what_was_found(spec: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    command = [sys.executable, "-u", "-c", START, "selftest", str(spec), "--report", "json"]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:  # until the first fault is through
            if line.startswith("1/"):
                break
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    result = json.loads(out)
    assert process.returncode == ExitCode.INTERRUPTED
    assert result["interrupted"] is True
    assert 1 <= len(result["faults"]) < 20
