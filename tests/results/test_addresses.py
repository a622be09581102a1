"""The addresses of the checks' pages: printed where the package says where they are, else not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rnncheck import __version__
from tests.report.canned import RUNS
from tests.small import START

ROOT = Path(__file__).parent.parent.parent
BASE = "https://docs.example.org/rnncheck"
METADATA = f"Metadata-Version: 2.4\nName: rnncheck\nVersion: {__version__}\n"
RENDER = """\
import sys
from rnncheck.report import sarif
from tests.report.canned import RUNS
print(sarif.render(RUNS[sys.argv[1]]))
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """An installation whose metadata name the site, found before the one that is here."""
    folder = tmp_path / f"rnncheck-{__version__}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"{METADATA}Project-URL: Documentation, {BASE}/\n")
    return tmp_path


def printed(*args: str, before: Path | None = None) -> str:
    path = os.pathsep.join(map(str, filter(None, [before, ROOT])))
    env = os.environ | {"PYTHONPATH": path, "COLUMNS": "120", "NO_COLOR": "1"}
    command = [sys.executable, "-c", *args]
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout


def test_rule_names_the_page(installed: Path) -> None:
    told = printed(START, "rule", "BD301", before=installed).splitlines()
    assert told[-1] == f"page: {BASE}/checks/bd301.html"


def test_rule_names_none_where_there_is_none(tmp_path: Path) -> None:
    folder = tmp_path / f"rnncheck-{__version__}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(METADATA)
    assert "page:" not in printed(START, "rule", "BD301", before=tmp_path)


def test_sarif_names_the_page_of_each_own_check(installed: Path) -> None:
    name = next(name for name, run in RUNS.items() if run.findings)
    rules = json.loads(printed(RENDER, name, before=installed))["runs"][0]["tool"]["driver"][
        "rules"
    ]
    assert rules
    for rule in rules:
        if not rule["id"].startswith("GATE"):
            assert rule["helpUri"] == f"{BASE}/checks/{rule['id'].lower()}.html"


def test_a_finding_names_its_page(installed: Path) -> None:
    name = next(name for name, run in RUNS.items() if run.findings)
    render = RENDER.replace("sarif", "markdown")
    code = RUNS[name].findings[0].code
    assert f"{BASE}/checks/{code.lower()}.html" in printed(render, name, before=installed)
