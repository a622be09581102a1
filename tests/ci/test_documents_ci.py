"""The CI snippets of the documents name inputs, variables and hooks that exist."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ruamel.yaml import YAML

from rnncheck import __version__
from tests.ci import steps
from tests.ci.steps import ROOT

GATE = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def snippet(document: str, start: str) -> Any:
    (text,) = re.findall(rf"```yaml\n({start}.*?)```", document, re.DOTALL)
    return YAML(typ="safe").load(text)


def workflow() -> Any:
    return snippet(GATE, "jobs:")["jobs"]["recurrence"]["steps"]


@pytest.mark.parametrize(
    "job", [workflow(), snippet(README, "steps:")["steps"]], ids=["gate", "readme"]
)
def test_the_actions_inputs_exist(job: Any) -> None:
    (used,) = [step for step in job if "/rnncheck@" in step["uses"]]
    assert used["uses"].endswith(f"@v{__version__}")
    assert set(used["with"]) <= set(steps.read_yaml("action.yml")["inputs"])


def test_the_workflow_uploads_what_the_action_writes() -> None:
    written = {step["with"].get("sarif_file") for step in workflow()}
    assert "rnncheck-reports/rnncheck.sarif" in written


def test_the_templates_job_and_variables_exist() -> None:
    snipped = snippet(GATE, "include:")
    template = steps.read_yaml(snipped["include"]["file"])
    job = snipped["recurrence"]
    assert set(job["variables"]) <= set(template[job["extends"]]["variables"])


def test_the_hooks_exist() -> None:
    (repo,) = snippet(GATE, "repos:")["repos"]
    known = {hook["id"] for hook in steps.read_yaml(".pre-commit-hooks.yaml")}
    assert {hook["id"] for hook in repo["hooks"]} == known
