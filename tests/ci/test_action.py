"""``action.yml``: its steps are run as GitHub runs them, but for those that download."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.ci import steps
from tests.ci.steps import REPORTS, ROOT, Done, project

ACTION = steps.read_yaml("action.yml")
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
INPUT = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")


def environment(step: dict[str, Any], **given: str) -> dict[str, str]:
    """The step's ``env`` with the inputs' values put in."""
    values = {name: str(entry["default"]) for name, entry in ACTION["inputs"].items()}
    values |= {name.replace("_", "-"): value for name, value in given.items()}
    return {
        name: INPUT.sub(lambda m: values[m[1]], text) for name, text in step.get("env", {}).items()
    }


def gate(folder: Path, **given: str) -> Done:
    """The gate's step."""
    step = STEPS["Gate"]
    runner = {
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_WORKSPACE": str(folder),
        "COLUMNS": "120",
    }
    return steps.run(step["run"], folder, environment(step, **given) | runner)


@pytest.mark.slow
def test_a_healthy_spec_passes_and_leaves_every_report(tmp_path: Path) -> None:
    done = gate(project(tmp_path), strict="true")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output").read_text() == "exit-code=0\n"
    reports = tmp_path / "rnncheck-reports"
    assert {file.name for file in reports.iterdir()} == REPORTS
    summary = (tmp_path / "summary.md").read_text()
    assert summary == (reports / "rnncheck.md").read_text()  # once: github appends it itself
    assert "::notice title=rnncheck::acting verified" in done.stdout
    assert "gate: budgets" in done.stdout  # the log is readable, too
    run = json.loads((reports / "rnncheck.json").read_text())
    assert (run["command"], run["strict"], run["exit_code"]) == ("gate", True, 0)
    assert json.loads((reports / "benchmark.json").read_text())[0]["unit"] == "ms"


@pytest.mark.slow
def test_the_exit_code_is_the_gates_and_the_reports_are_there(tmp_path: Path) -> None:
    slow = (project(tmp_path) / "rnncheck.yaml").read_text().replace("max: 60000", "max: 0.0001")
    (tmp_path / "a spec.yaml").write_text(slow)
    done = gate(tmp_path, spec="a spec.yaml", args="--no-verify", reports="out put")
    assert done.returncode == 5, done.stderr
    assert (tmp_path / "output").read_text() == "exit-code=5\n"
    line = slow[: slow.index("forward_ms")].count("\n") + 1
    assert f"::error file=a spec.yaml,line={line},col=" in done.stdout
    assert {file.name for file in (tmp_path / "out put").iterdir()} == REPORTS


def test_options_arrive_and_inputs_are_no_shell_text(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / "bin" / "rnncheck").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
    evil = '$(touch pwned) `touch pwned` "; touch pwned; *'
    done = gate(
        folder, spec="-x.yaml", baseline=evil, against_ref="origin/main", max_slowdown="3%",
        args="--set\nseed=1\n\n--quiet",
    )  # fmt: skip
    assert done.returncode == 7
    words = done.stdout.splitlines()
    assert words[0] == "gate"
    assert words[words.index("--baseline") :] == [
        "--baseline", evil, "--against-ref", "origin/main", "--max-slowdown", "3%",
        "--set", "seed=1", "--quiet", "--", "-x.yaml",
    ]  # fmt: skip
    assert not (folder / "pwned").exists()


def test_no_script_has_an_expression_in_it() -> None:
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")
        assert steps.parses(step.get("run", ""))
        assert ("run" in step) == (step.get("shell") == "bash")


def test_every_input_is_used_and_every_used_one_exists() -> None:
    used = set(re.findall(r"inputs\.([a-z-]+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])


def test_reports_are_kept_whatever_happened() -> None:
    step = STEPS["Keep the reports"]
    assert step["if"] == "always()"
    assert step["with"]["path"] == ACTION["outputs"]["reports"]["value"]


def test_the_cache_has_a_folder_and_a_key(tmp_path: Path) -> None:
    runner = {
        "GITHUB_OUTPUT": str(project(tmp_path) / "output"),
        "GITHUB_ACTION_PATH": str(ROOT),
        "RUNNER_OS": "Linux",
    }
    done = steps.run(STEPS["Find pip's cache"]["run"], tmp_path, runner)
    assert done.returncode == 0, done.stderr
    found = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert re.fullmatch(r"rnncheck-Linux-3\.\d+-[0-9a-f]{16}", found["key"])
    assert found["dir"]
    assert set(re.findall(r"steps\.pip\.outputs\.(\w+)", str(STEPS["Cache"]))) == set(found)


@pytest.mark.parametrize(
    ("given", "torch", "package"),
    [
        ({}, "", "<{action}>"),
        (
            {"source": "rnncheck==9", "requirements": "my req.txt", "torch_index_url": "file:i"},
            "<--index-url><file:i>",
            "<rnncheck==9><--requirement><my req.txt>",
        ),
    ],
)
def test_torch_is_installed_first_with_the_pins(
    tmp_path: Path, given: dict[str, str], torch: str, package: str
) -> None:
    step, action = STEPS["Install"], {"GITHUB_ACTION_PATH": str(ROOT)}
    env = environment(step, **given) | action
    done = steps.pip_calls(step["run"], project(tmp_path), env, steps.ACTION_BASH)
    head = f"<-m><pip><install><--constraint><{ROOT}/constraints.txt>"
    assert done.stdout.splitlines() == [
        f"{head}{torch}<torch>",
        head + package.format(action=ROOT),
    ]
    assert (ROOT / "constraints.txt").is_file() and (ROOT / "pyproject.toml").is_file()
