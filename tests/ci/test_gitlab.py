"""``templates/gitlab.yml``: its script is run by the shells that runners use."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.ci import steps
from tests.ci.steps import REPORTS, TOO_SLOW, Done, project

JOB = steps.read_yaml("templates/gitlab.yml")[".rnncheck-gate"]
SHELLS = [("bash", "-eo", "pipefail"), ("sh", "-e")]
VARIABLES = {name: value for name, value in JOB["variables"].items() if name.startswith("RNNCHECK")}


def script(folder: Path, shell: tuple[str, ...] = SHELLS[0], **given: str) -> Done:
    (text,) = JOB["script"]
    named = {f"RNNCHECK_{name}": value for name, value in given.items()}
    return steps.run(text, folder, VARIABLES | {"COLUMNS": "120"} | named, shell)


def test_a_healthy_spec_passes_and_leaves_every_report(tmp_path: Path) -> None:
    done = script(project(tmp_path))
    assert done.returncode == 0, done.stderr
    (folder,) = JOB["artifacts"]["paths"]
    assert {file.name for file in (tmp_path / folder).iterdir()} == REPORTS
    assert (tmp_path / JOB["artifacts"]["reports"]["junit"]).is_file()
    assert JOB["artifacts"]["when"] == "always"
    assert json.loads((tmp_path / folder / "rnncheck.json").read_text())["command"] == "gate"


@pytest.mark.slow
def test_the_exit_code_is_the_gates(tmp_path: Path) -> None:
    shell = SHELLS[1] if shutil.which("sh") else SHELLS[0]
    done = script(project(tmp_path), shell, ARGS="\n".join(TOO_SLOW), SPEC="rnncheck.yaml")
    assert done.returncode == 5, done.stderr
    assert (tmp_path / "rnncheck-reports" / "junit.xml").is_file()


@pytest.mark.parametrize("shell", SHELLS, ids=["bash", "sh"])
def test_options_arrive_and_variables_are_no_shell_text(
    tmp_path: Path, shell: tuple[str, ...]
) -> None:
    folder = project(tmp_path)
    (folder / "bin" / "rnncheck").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
    evil = '$(touch pwned) `touch pwned` "; touch pwned; *'
    done = script(
        folder, shell, SPEC="-x.yaml", BASELINE=evil, AGAINST_REF="origin/main",
        MAX_SLOWDOWN="3%", STRICT="true", ARGS=f"--set\nname={evil}\n\n--quiet",
    )  # fmt: skip
    assert done.returncode == 7
    words = done.stdout.splitlines()
    assert words[words.index("--baseline") :] == [
        "--baseline", evil, "--against-ref", "origin/main", "--max-slowdown", "3%", "--strict",
        "--set", f"name={evil}", "--quiet", "--", "-x.yaml",
    ]  # fmt: skip
    assert not (folder / "pwned").exists()


@pytest.mark.parametrize("shell", SHELLS, ids=["bash", "sh"])
def test_torch_is_installed_first(tmp_path: Path, shell: tuple[str, ...]) -> None:
    (text,) = JOB["before_script"]
    assert steps.parses(text, shell[0])
    given = {
        "RNNCHECK_SOURCE": "rnncheck @ git+file:///x",
        "RNNCHECK_CONSTRAINTS": "pins.txt",
        "RNNCHECK_REQUIREMENTS": "my req.txt",
        "RNNCHECK_TORCH_INDEX_URL": "file:i",
    }
    done = steps.pip_calls(text, project(tmp_path), VARIABLES | given, shell)
    head = "<-m><pip><install><--constraint><pins.txt>"
    assert done.stdout.splitlines() == [
        f"{head}<--index-url><file:i><torch>",
        f"{head}<rnncheck @ git+file:///x><--requirement><my req.txt>",
    ]


@pytest.mark.parametrize(("source", "code"), [("", 1), ("none", 0)])
def test_nothing_is_installed_by_guess(tmp_path: Path, source: str, code: int) -> None:
    (text,) = JOB["before_script"]
    env = VARIABLES | {"RNNCHECK_SOURCE": source}
    done = steps.pip_calls(text, project(tmp_path), env, SHELLS[0])
    assert (bool(done.returncode), done.stdout) == (bool(code), "")
    assert ("say what pip installs" in done.stderr) == bool(code)
