"""``rnncheck spec``, and what every command does with a bad spec or a crash, through the CLI."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from rnncheck import __version__
from rnncheck.cli.app import app

GOOD = """\
schema: 1
name: small
env: {use: GymEnv, env_name: CartPole-v1}
policy: [LSTMModule]
collect: Collector
"""
BAD = GOOD + "seed: x\nverify: {stepz: 3}\n"


def run(*args: str) -> Result:
    return CliRunner().invoke(app, list(args), env={"COLUMNS": "120", "NO_COLOR": "1"})


@pytest.fixture(autouse=True)
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A valid spec where it is found without being named."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "rnncheck.yaml"
    file.write_text(GOOD)
    return file


def test_validate_says_what_the_spec_covers() -> None:
    done = run("spec", "validate")
    assert (done.exit_code, done.stdout) == (0, "ok: rnncheck.yaml (small): env, policy, collect\n")


def test_validate_reports_every_mistake(spec: Path) -> None:
    spec.write_text(BAD)
    done = run("spec", "validate", "rnncheck.yaml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        'error: rnncheck.yaml:6:1: seed must be a whole number, not "x"',
        "error: rnncheck.yaml:7:10: unknown key 'verify.stepz'",
        "  accepted: select, ignore, steps, timeout, drift, strict, backends, accept",
        "  did you mean 'steps'?",
    ]


def test_validate_takes_several_files_and_tells_of_each(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "good.yaml").write_text(GOOD)
    done = run("spec", "validate", "bad.yaml", "rnncheck.yaml", "gone.yaml", "good.yaml")
    assert done.exit_code == 2
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["rnncheck.yaml", "good.yaml"]
    problems = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert [line.split(":")[1] for line in problems] == [" bad.yaml", " bad.yaml", " gone.yaml"]
    assert run("spec", "validate", "rnncheck.yaml", "good.yaml").exit_code == 0


@pytest.mark.parametrize("command", ["validate", "show"])
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nowhere.yaml"], "error: nowhere.yaml: the spec file does not exist"),
        (["train.py"], "error: train.py: is Python, not a spec: a spec is a YAML file that names"),
        (["gone.py"], "error: gone.py: the spec file does not exist"),
        (["."], "error: .: is a folder, not a spec file\n  did you mean rnncheck.yaml?"),
        (["--set", "seed"], "error: --set seed: is not KEY=VALUE"),
        (["--set", "seed=1", "--set", "sed=1"], "error: --set sed=1: unknown key 'sed'"),
    ],
)
def test_what_cannot_be_loaded_is_a_usage_error(command: str, args: list[str], said: str) -> None:
    Path("train.py").write_text("import torch\n")
    done = run("spec", command, *args)
    assert done.exit_code == 2
    assert done.stderr.startswith(said)
    assert "Traceback" not in done.stderr


def test_to_a_python_file_verify_says_what_a_spec_is() -> None:
    Path("train.py").write_text("import torch\n")
    done = run("verify", "train.py")
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        "error: train.py: is Python, not a spec: a spec is a YAML file that names the env, the"
        " policy and the other parts of a pipeline, or your functions that make them",
        "  write one with `rnncheck init`",
    ]


def test_without_a_spec_init_is_named(spec: Path) -> None:
    spec.unlink()
    done = run("spec", "validate")
    assert done.exit_code == 2
    assert "rnncheck init" in done.stderr


def test_show_prints_yaml_with_defaults_and_overrides() -> None:
    done = run("spec", "show", "--set", "seed=5")
    shown = YAML(typ="safe", pure=True).load(done.stdout)
    assert done.exit_code == 0
    assert (shown["seed"], shown["verify"]["steps"]) == (5, 32)
    assert shown["policy"]["modules"] == [{"use": "LSTMModule"}]


def test_show_prints_json() -> None:
    assert json.loads(run("spec", "show", "--json").stdout)["env"]["workers"] == 1


def test_what_show_prints_is_a_spec(spec: Path) -> None:
    once = run("spec", "show").stdout
    spec.write_text(once)
    assert run("spec", "show").stdout == once


def test_schema_is_json() -> None:
    done = run("spec", "schema")
    assert json.loads(done.stdout)["title"] == "rnncheck spec"


def test_version() -> None:
    assert run("--version").stdout == f"rnncheck {__version__}\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["ruel"], "'rule'"),
        (["spec", "sow"], "'show'"),
        (["spec", "show", "--jsn"], "--json"),
        (["spec", "show", "a", "b"], "unexpected extra argument"),
    ],
)
def test_usage_errors_name_what_was_meant(args: list[str], said: str) -> None:
    done = run(*args)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize("args", [[], ["spec"]])
def test_alone_it_prints_its_help(args: list[str]) -> None:
    done = run(*args)
    assert "Usage:" in done.output
    assert "Traceback" not in done.output


def _crash(self: object, *args: object) -> object:
    raise RuntimeError("broken on purpose")


@pytest.mark.parametrize("asked", ["", "1"])
def test_an_internal_error_is_one_paragraph(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    monkeypatch.setattr(Path, "open", _crash)
    monkeypatch.setenv("RNNCHECK_TRACEBACK", asked)
    done = run("spec", "validate", "rnncheck.yaml")
    assert done.exit_code == 3
    assert "internal error: RuntimeError: broken on purpose" in done.stderr
    assert ("Traceback (most recent call last)" in done.stderr) == bool(asked)


def _interrupt(self: object, *args: object) -> object:
    raise KeyboardInterrupt


def test_an_interruption_exits_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "open", _interrupt)
    assert run("spec", "validate", "rnncheck.yaml").exit_code == 130
