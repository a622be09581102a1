"""The code of the documentation's pages runs, page by page, in the order in which it is read.

A page's blocks share one folder, with a small spec in it. A block that begins with a comment that
names a file, such as ``# test_memory.py``, is that file; other Python of a page is one script.
Every line of a shell must end with 0, but for what needs another side to compare with
(`tests/cli/test_gate_against.py` has that).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.small import PIPELINE, START

ROOT = Path(__file__).parent.parent
SETTINGS = """\
collect: {use: Collector, frames_per_batch: 64, batches: 2}
verify: {select: [WR]}
gate: {cells: []}
"""
ELSEWHERE = ("--against", "--against-ref", "--install-completion")
FOLDERS = "start", "guides", "tutorials"
CHEAP = {"r2d2"}  # some ten seconds
PAGES = sorted(page for name in FOLDERS for page in (ROOT / "docs" / name).glob("*.md"))
BLOCK = re.compile(r"^```(python|yaml|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# ([\w.]+\.(?:py|yaml))\n")


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(found[1], found[2]) for found in BLOCK.finditer(page.read_text("utf-8"))]


def commands(text: str) -> list[str]:
    lines = [line.partition("   #")[0].strip() for line in text.splitlines()]
    return [line for line in lines if line and not any(word in line for word in ELSEWHERE)]


def has_code(page: Path) -> bool:
    return any(language == "python" or commands(text) for language, text in blocks(page))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small spec, and `rnncheck`, `python` and `pytest` on the path."""
    (tmp_path / "rnncheck.yaml").write_text(PIPELINE + SETTINGS)
    tools = {"rnncheck": f"-c '{START}'", "pytest": "-m pytest", "python": ""}
    (tmp_path / "bin").mkdir()
    for name, args in tools.items():
        tool = tmp_path / "bin" / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {args} "$@"\n')
        tool.chmod(0o755)
    return tmp_path


def run(line: str, folder: Path) -> str:
    env = os.environ | {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "NO_COLOR": "1",
        "SHELL": "/bin/bash",
    }
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def with_code() -> list[Path]:
    return [page for page in PAGES if has_code(page)]


def parameters() -> list[Any]:
    """Each page; `make test` runs the cheap ones."""
    marks = {page: [pytest.mark.slow] if page.stem not in CHEAP else [] for page in with_code()}
    return [pytest.param(page, id=page.stem, marks=marks[page]) for page in marks]


@pytest.mark.parametrize("page", parameters())
def test_the_code_of_a_page_runs(page: Path, folder: Path) -> None:
    said, script = "", ""
    if "rnncheck init\n" in page.read_text("utf-8"):
        (folder / "rnncheck.yaml").unlink()  # the page writes its own
    for language, text in blocks(page):
        named = FILE.match(text)
        if named:
            (folder / named[1]).write_text(text)
        elif language == "python":
            script += text
        elif language == "sh":
            said += "".join(run(line, folder) for line in commands(text))
    if script:
        (folder / "script.py").write_text(script)
        said += run("python script.py", folder)
    promised = re.findall(r"prints `([^`]+)`", page.read_text("utf-8"))
    assert [words for words in promised if words not in said.splitlines()] == []


def test_the_pages_are_seen() -> None:
    stems = {page.stem for page in with_code()}
    assert {"script", "objects", "spec", "notebooks", "pytest", "report"} <= stems
    assert {"ppo", "r2d2", "sac", "recurrent_dqn", "own_cell", "own_loss", "multi_agent"} <= stems
    assert commands("rnncheck verify x   # once\n\nrnncheck gate --against y\n") == [
        "rnncheck verify x"
    ]
