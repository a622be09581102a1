"""The README's CI snippets name inputs, variables and hooks that exist."""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml import YAML

from rnncheck import __version__
from tests.ci import steps
from tests.ci.steps import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def snippet(start: str) -> Any:
    (text,) = re.findall(rf"```yaml\n({start}.*?)```", README, re.DOTALL)
    return YAML(typ="safe").load(text)


def test_the_actions_inputs_exist() -> None:
    job = snippet("jobs:")["jobs"]["recurrence"]
    (used,) = [step for step in job["steps"] if "/rnncheck@" in step["uses"]]
    assert used["uses"].endswith(f"@v{__version__}")
    assert set(used["with"]) <= set(steps.read_yaml("action.yml")["inputs"])
    written = {step["with"].get("sarif_file") for step in job["steps"]}
    assert "rnncheck-reports/rnncheck.sarif" in written


def test_the_templates_job_and_variables_exist() -> None:
    snipped = snippet("include:")
    template = steps.read_yaml(snipped["include"]["file"])
    job = snipped["recurrence"]
    assert set(job["variables"]) <= set(template[job["extends"]]["variables"])


def test_the_hooks_exist() -> None:
    (repo,) = snippet("repos:")["repos"]
    known = {hook["id"] for hook in steps.read_yaml(".pre-commit-hooks.yaml")}
    assert {hook["id"] for hook in repo["hooks"]} == known
