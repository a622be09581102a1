"""``rnncheck verify``, through the CLI: exit codes, bad input, what is stored and
reported."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from rnncheck.checks.catalogue import entries
from rnncheck.cli.app import app
from rnncheck.results.exit_codes import ExitCode
from tests.small import PIPELINE

ROOT = Path(__file__).parent.parent.parent
BROKEN = ROOT / "fixtures" / "broken"

SPEC = PIPELINE + "collect: {use: Collector, frames_per_batch: 40, batches: 2}\n"
NO_PRIMER = "  primers: manual\npolicy:"
OWN_ENV = """\
env:
  factory: "envs:{factory}"
policy:"""

ENVS = '''\
"""A user's envs."""

import time
from pathlib import Path

from torchrl.envs import GymEnv, InitTracker, TransformedEnv
from torchrl.modules import LSTMModule


class Motor(GymEnv):
    steps = 0

    def _step(self, td):
        self.steps += 1
        if self.steps > 25:
            raise RuntimeError("the motor broke")
        return super()._step(td)


class Sleepy(GymEnv):
    seconds = 60.0  # a step: many times what any stage may take

    def _step(self, td):
        time.sleep(self.seconds)
        return super()._step(td)


class Slow(Sleepy):
    seconds = 0.05


def whole(base):
    primer = LSTMModule(4, 8, in_key="observation", out_key="features").make_tensordict_primer()
    env = TransformedEnv(base("CartPole-v1", categorical_action_encoding=True), InitTracker())
    return env.append_transform(primer)


def breaking():
    return whole(Motor)


def sleepy():
    return whole(Sleepy)


def slow():
    return whole(Slow)


def telling():
    Path("built").touch()
    return whole(GymEnv)
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a healthy spec and a module of envs."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "rnncheck.yaml").write_text(SPEC)
    (tmp_path / "envs.py").write_text(ENVS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str) -> Result:
    env = {"COLUMNS": "160", "NO_COLOR": "1"}
    return CliRunner().invoke(app, ["verify", *args], env=env)


def swap(*pairs: str) -> None:
    """Replace parts of the spec."""
    text = SPEC
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert old in text, old
        text = text.replace(old, new)
    Path("rnncheck.yaml").write_text(text)


def borrow(name: str) -> str:
    """A broken fixture, copied into the folder, since results are stored beside the spec."""
    for path in (*BROKEN.glob("*.py"), BROKEN / f"{name}.yaml"):
        shutil.copy(path, ".")
    return f"{name}.yaml"


def use_env(factory: str) -> None:
    """The spec over an env of the user's module."""
    head, _, tail = SPEC.partition("env:\n")
    own = OWN_ENV.format(factory=factory)
    Path("rnncheck.yaml").write_text(head + own + tail.partition("policy:")[2])


def latest(folder: Path = Path()) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((folder / ".rnncheck/runs/latest.json").read_text())
    return stored


def outcomes(stored: dict[str, Any]) -> dict[str, str]:
    return {check["code"]: check["outcome"] for check in stored["checks"]}


def failed(stored: dict[str, Any]) -> set[str]:
    return {code for code, outcome in outcomes(stored).items() if outcome == "failed"}


# --- what a run ends in --------------------------------------------------------------------------


def test_a_healthy_pipeline_exits_0_and_is_stored() -> None:
    done = run()
    assert done.exit_code == ExitCode.VERIFIED, done.output
    assert "exit 0 (verified)" in done.stdout
    stored = latest()
    assert (stored["verdict"], stored["exit_code"]) == ("verified", 0)
    (one,) = [p for p in Path(".rnncheck/runs").glob("*.json") if p.name != "latest.json"]
    assert json.loads(one.read_text()) == stored
    assert Path(".rnncheck/.gitignore").read_text() == "*\n"
    assert stored["spec"]["path"] == "rnncheck.yaml"
    assert set(stored["environment"]["packages"]) >= {"torch", "torchrl", "tensordict"}


def test_a_missing_primer_exits_1_and_names_the_fix() -> None:
    swap("policy:", NO_PRIMER)
    done = run()
    assert done.exit_code == ExitCode.FAILED
    assert {"WR103", "CL401"} <= failed(latest())
    for part in ("WR103 missing-state-primer", "CL401 acted-without-memory"):
        assert part in done.stdout
    assert "get_primers_from_module(policy)" in done.stdout
    assert "auto_register_policy_transforms" in done.stdout
    lines = Path("rnncheck.yaml").read_text().splitlines()
    (line,) = [number for number, text in enumerate(lines, 1) if "transforms:" in text]
    assert f"at         rnncheck.yaml:{line}:" in done.stdout
    assert "proved     with the policy's primers appended to the env, WR103" in done.stdout


def test_a_feed_forward_policy_exits_4() -> None:
    done = run(borrow("wr101_no_recurrent_state"), "--select", "WR101")
    assert done.exit_code == ExitCode.NOT_SHOWN
    assert "WR101" in done.stdout


def test_a_run_in_which_nothing_could_fail_exits_4() -> None:
    done = run("--select", "CL408")
    assert done.exit_code == ExitCode.NOT_SHOWN
    assert outcomes(latest()) == {"CL408": "not-applicable"}


@pytest.mark.parametrize("name", ["wr105_random_initial_state", "cl408_random_steps_poison_state"])
def test_a_warning_fails_only_a_strict_run(name: str) -> None:
    code = name.partition("_")[0].upper()
    plain = run(borrow(name), "--select", code, "--select", "WR101")
    assert plain.exit_code == ExitCode.VERIFIED
    assert code in plain.stdout
    strict = run(borrow(name), "--select", code, "--strict")
    assert strict.exit_code == ExitCode.FAILED


def test_an_env_that_raises_is_shown_with_the_users_frames() -> None:
    use_env("breaking")
    done = run()
    assert done.exit_code in (ExitCode.FAILED, ExitCode.INTERNAL)
    assert "the motor broke" in done.stdout
    line = ENVS.splitlines().index('            raise RuntimeError("the motor broke")') + 1
    assert f"envs.py:{line}" in done.stdout
    assert "Traceback" not in done.output
    assert "rnncheck/pipeline" not in done.output


def test_a_policy_that_returns_nan_fails_cl409() -> None:
    done = run(borrow("cl409_recorded_nan"), "--select", "CL409", "--report", "json")
    assert done.exit_code == ExitCode.FAILED
    assert failed(json.loads(done.stdout)) == {"CL409"}


@pytest.mark.slow
def test_an_env_that_is_too_slow_ends_with_the_stated_time_out() -> None:
    use_env("sleepy")
    done = run("--set", "verify.timeout=4", "--select", "WR108", "--select", "CL")
    assert done.exit_code in (ExitCode.FAILED, ExitCode.INTERNAL)
    assert "did not finish within 4 s" in done.stdout
    stages = {stage["stage"]: stage["outcome"] for stage in latest()["stages"]}
    assert stages["collect"] == "error"


# --- output --------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["json=nowhere/run.json", "sarif=envs.py/x.sarif", "json=."])
def test_a_report_that_cannot_be_written_stops_the_run_before_it_starts(target: str) -> None:
    use_env("telling")
    done = run("--report", target)
    assert done.exit_code == ExitCode.USAGE
    assert "Traceback" not in done.output
    assert str(Path(target.partition("=")[2]).resolve()) in done.stderr
    assert not Path("built").exists()


def test_a_store_that_cannot_be_made_stops_the_run_before_it_starts() -> None:
    use_env("telling")
    Path(".rnncheck").write_text("a file")
    done = run()
    assert done.exit_code == ExitCode.USAGE
    assert ".rnncheck" in done.stderr
    assert not Path("built").exists()


def test_an_unknown_format_is_refused() -> None:
    done = run("--report", "jsn=run.json")
    assert done.exit_code == ExitCode.USAGE
    assert "did you mean 'json'" in done.stderr


@pytest.mark.slow
def test_several_reports_of_one_run_agree() -> None:
    swap("policy:", NO_PRIMER)
    files = {name: Path(f"report.{name}") for name in ("json", "jsonl", "junit", "sarif", "github")}
    wanted = [arg for name, path in files.items() for arg in ("--report", f"{name}={path}")]
    done = run(*wanted, "--report", "markdown=report.md", "--report", "console")
    assert done.exit_code == ExitCode.FAILED
    stored = latest()
    codes = failed(stored)
    assert json.loads(files["json"].read_text()) == stored

    lines = [json.loads(line) for line in files["jsonl"].read_text().splitlines()]
    assert not any("time" in line for line in lines)  # told again behind the run
    ended = [line["result"] for line in lines if line["event"] == "check-finished"]
    assert {result["code"] for result in ended if result["outcome"] == "failed"} == codes

    suites = ElementTree.parse(files["junit"]).iter("testsuite")
    cases = [case for one in suites if one.get("name") != "guarantees" for case in one]
    bad = [case.get("name", "") for case in cases if case.find("failure") is not None]
    assert {name.split()[0] for name in bad} == codes

    (sarif,) = json.loads(files["sarif"].read_text())["runs"]
    assert {result["ruleId"] for result in sarif["results"]} == codes

    markdown, github = Path("report.md").read_text(), files["github"].read_text()
    for code in codes:
        assert code in markdown
        assert code in done.stdout
        assert "::error" in github and code in github


def test_machine_formats_have_standard_output_to_themselves() -> None:
    done = run("--select", "WR", "--report", "json")
    assert json.loads(done.stdout) == latest()


def test_quiet_says_the_verdict_and_verbose_what_was_compared() -> None:
    quiet = run("-q", "--select", "WR").stdout
    assert "acting verified, training not checked: " in quiet
    assert "WR101" not in quiet
    verbose = run("-v", "--select", "WR").stdout
    assert "carry: recurrent_state_h, recurrent_state_c" in verbose


def test_events_carry_their_time_and_the_first_one_what_each_check_is(tmp_path: Path) -> None:
    done = run("--select", "WR102", "--report", "jsonl")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    times = [datetime.fromisoformat(event["time"]) for event in events]
    assert times == sorted(times)
    assert times[0].utcoffset() == timedelta(0)
    (rule,) = events[0]["rules"]
    assert (rule["code"], rule["family"], rule["severity"]) == ("WR102", "wiring", "error")
    assert rule["summary"] and rule["why"] and rule["fix"]
    assert events[-1]["run"]["rules"] == [rule]


# --- what is run ---------------------------------------------------------------------------------


def test_select_and_ignore_take_prefixes_and_names() -> None:
    run("--select", "WR", "--select", "memory-dead", "--ignore", "WR1", "--ignore", "EQ")
    assert set(outcomes(latest())) == {"BD306"}
    run("--select", "wr10", "--ignore", "WR108")
    assert set(outcomes(latest())) == {f"WR10{n}" for n in (1, 2, 3, 4, 5, 6, 7, 9)}


def test_codes_are_listed_with_commas() -> None:
    run("--select", "wr10,memory-dead", "--select", "EQ201", "--ignore", "WR108, EQ")
    assert set(outcomes(latest())) == {"BD306"} | {f"WR10{n}" for n in (1, 2, 3, 4, 5, 6, 7, 9)}


def test_stage_limits_the_checks() -> None:
    run("--stage", "env")
    assert set(outcomes(latest())) == {one.code for one in entries() if one.stage == "env"}


def test_fast_leaves_the_dear_checks_out_and_says_so() -> None:
    done = run("--fast")
    assert done.exit_code == ExitCode.VERIFIED, done.output
    stored = latest()
    dear = {one.code for one in entries() if one.dear}
    assert dear <= set(stored["left_out"])
    assert set(outcomes(stored)) == {one.code for one in entries()} - set(stored["left_out"])
    standing = {one["name"]: (one["standing"], one["because"]) for one in stored["guarantees"]}
    assert standing["precision"][0] == "not-asked" and "PR902" in standing["precision"][1]
    assert set(stored["left_out"]) == dear or "s of --fast were over" in " ".join(stored["notices"])
    shown = " ".join(done.stdout.split())
    assert f"verified what --fast asks, {len(stored['left_out'])} checks left out" in shown
    assert "--fast does not ask " in shown


def test_the_specs_own_selection_holds_and_the_command_line_adds_to_it() -> None:
    Path("rnncheck.yaml").write_text(SPEC + "verify: {select: [WR10], ignore: [WR108]}\n")
    run("--ignore", "WR109")
    assert set(outcomes(latest())) == {f"WR10{n}" for n in range(1, 8)}


def test_set_and_seed_change_the_spec() -> None:
    run("--select", "WR101", "--seed", "7")
    first = latest()
    assert first["seed"] == 7
    run("--select", "WR101", "--seed", "7", "--set", "policy.modules.0.hidden_size=12")
    second = latest()
    assert first["spec"]["hash"] != second["spec"]["hash"]
    sizes = {s["stage"]: s["detail"] for s in second["stages"]}
    assert sizes["policy"] != {s["stage"]: s["detail"] for s in first["stages"]}["policy"]


def test_the_same_seed_gives_the_same_result() -> None:
    results = []
    for _ in range(2):
        run("--seed", "3", "--set", "env.primers=manual", "--select", "CL")
        results.append([check["findings"] for check in latest()["checks"]])
    assert results[0] == results[1]
    assert any(results[0])


# --- bad input -----------------------------------------------------------------------------------

LSTM = "{use: LSTMModule, in_key: observation, out_key: features, hidden_size: 8}"


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        ("schema: 1\n", "schema: 1\nsed: 3\n", "2:1", "'seed'"),
        ("use: GymEnv", "use: GymEv", "4:3", "'GymEnv'"),
        ("CartPole-v1", "CartPol-v1", "5:3", "'CartPole-v1'"),
        ("env_name", "env_nam", "5:3", "'env_name'"),
        ("[InitTracker]", "[InitTraker]", "7:16", "'InitTracker'"),
        ("[InitTracker]", "[{use: StepCounter, maxsteps: 3}]", "7:35", "'max_steps'"),
        ("use: LSTMModule", "use: LSTMModul", "10:8", "'LSTMModule'"),
        ("hidden_size", "hiden_size", "10:65", "'hidden_size'"),
        ("hidden_size: 8", "hidden_size: big", "10:65", "int"),
        ("in_key: observation", "in_key: observatio", "10:25", "'observation'"),
        ("in_keys: [features]", "in_keys: [feature]", "11:18", "'features'"),
        ("frames_per_batch", "frames_per_bach", "13:27", "'frames_per_batch'"),
        ("use: Collector", "use: Colector", "13:11", "'Collector'"),
        ("batches: 2", "batches: two", "13:49", "whole number"),
        (LSTM, '{factory: "env:make"}', "10:8", "'envs'"),
        (LSTM, '{factory: "envs:telin"}', "10:8", "'telling'"),
        (LSTM, '{factory: "envs.telling"}', "10:8", "module:function"),
        ("- QValueModule", "- QValueModul", "12:7", "'QValueModule'"),
        ("name: small", "name: [small]", "2:1", "text"),
        ("policy:", "polcy:", "8:1", "'policy'"),
    ],
)
def test_a_typo_is_one_message_with_its_place(old: str, new: str, place: str, said: str) -> None:
    swap(old, new)
    done = run()
    assert done.exit_code == ExitCode.USAGE, done.output
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert f"rnncheck.yaml:{place}" in errors[0]
    assert said in done.stderr
    assert "Traceback" not in done.output
    assert not Path(".rnncheck/runs/latest.json").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--select", "BX"], "'BX'"),
        (["--ignore", "memory-ded"], "did you mean 'memory-dead'"),
        (["--select", "WR101,BX"], "no check is called 'BX'"),
        (["--ignore", "WR,memory-ded"], "did you mean 'memory-dead'"),
        (["--select", "WR101,"], "no check is called ''"),
        (["--set", "verify.stepz=3"], "did you mean 'steps'"),
        (["--set", "verify"], "--set"),
        (["--stage", "colect"], "colect"),
        (["--seed", "-1"], "--seed"),
        (["nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_a_wrong_argument_exits_2(args: list[str], said: str) -> None:
    done = run(*args)
    assert done.exit_code == ExitCode.USAGE
    assert said in done.stderr
    assert "Traceback" not in done.output


def test_a_factory_that_raises_shows_the_users_frames_alone() -> None:
    Path("envs.py").write_text("def telling():\n    return 1 / 0\n")
    use_env("telling")
    done = run()
    assert done.exit_code == ExitCode.USAGE
    assert "ZeroDivisionError" in done.stderr
    assert "return 1 / 0" in done.stderr
    assert "envs.py:2" in done.stderr
    for stray in ("Traceback", "site-packages", "rnncheck/"):
        assert stray not in done.output
