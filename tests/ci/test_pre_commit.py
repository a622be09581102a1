"""``.pre-commit-hooks.yaml``: each entry is run as pre-commit does, with the files that the hook's
patterns take."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ci import steps
from tests.ci.steps import SPEC, Done, project

HOOKS = {hook["id"]: hook for hook in steps.read_yaml(".pre-commit-hooks.yaml")}


def entry(name: str, folder: Path, *files: str) -> Done:
    words = [*files] if HOOKS[name].get("pass_filenames", True) else []
    quoted = " ".join(f"'{word}'" for word in words)
    return steps.run(f"{HOOKS[name]['entry']} {quoted}", folder, {"COLUMNS": "120"})


def takes(name: str, path: str) -> bool:
    hook = HOOKS[name]
    wanted = re.search(hook.get("files", ""), path)
    return bool(wanted and not re.search(hook.get("exclude", "^$"), path))


def test_the_spec_hook_validates_what_it_is_given(tmp_path: Path) -> None:
    (project(tmp_path) / "rnncheck-ppo.yml").write_text(SPEC)
    done = entry("rnncheck-spec", tmp_path, "rnncheck.yaml", "rnncheck-ppo.yml")
    assert (done.returncode, done.stdout.count("ok: ")) == (0, 2)
    (tmp_path / "rnncheck-ppo.yml").write_text(SPEC.replace("seed", "sed").replace("env:", "enf:"))
    done = entry("rnncheck-spec", tmp_path, "rnncheck.yaml", "rnncheck-ppo.yml")
    assert done.returncode == 2
    assert "error: rnncheck-ppo.yml:3:1: unknown key 'enf'" in done.stderr


def test_the_spec_hook_takes_specs_and_no_workflows() -> None:
    assert takes("rnncheck-spec", "rnncheck.yaml")
    assert takes("rnncheck-spec", "configs/rnncheck-ppo.yml")
    assert not takes("rnncheck-spec", ".github/workflows/rnncheck.yml")
    assert not takes("rnncheck-spec", "rnncheck.py")


@pytest.mark.slow
def test_the_verify_hook_runs_the_quick_checks(tmp_path: Path) -> None:
    (project(tmp_path) / "rnncheck.yaml").write_text(SPEC)
    done = entry("rnncheck-verify", tmp_path, "agent.py")
    assert done.returncode == 0, done.stdout + done.stderr
    broken = SPEC.replace("policy:", "  primers: manual\npolicy:", 1)
    (tmp_path / "rnncheck.yaml").write_text(broken)
    done = entry("rnncheck-verify", tmp_path, "agent.py")
    assert done.returncode == 1
    assert "failed WR103" in done.stdout


def test_the_hooks_are_whole() -> None:
    for hook in HOOKS.values():
        assert {"id", "name", "entry", "language"} <= set(hook)
        assert hook["language"] == "system"
