"""``rnncheck rule``, through the CLI."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rnncheck.checks.catalogue import DOCSTRING_SECTIONS, entries
from rnncheck.results.families import FAMILIES
from tests.small import START

ROOT = Path(__file__).parent.parent.parent


def test_it_lists_every_check_by_family(rnncheck: Any) -> None:
    done = rnncheck("rule")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for entry in entries():
        assert any(entry.code in line and entry.name in line for line in lines)
    headings = [line for line in lines if line and line[0].isalpha()][:-1]
    assert headings == [f"{one.title}: {one.about}" for one in FAMILIES]


@pytest.mark.parametrize("how", ["code", "name"])
def test_it_explains_one(rnncheck: Any, how: str) -> None:
    entry = entries()[0]
    done = rnncheck("rule", getattr(entry, how).lower())
    assert done.returncode == 0
    assert done.stdout.startswith(f"{entry.code} {entry.name}")
    assert [line for line in done.stdout.splitlines() if line in DOCSTRING_SECTIONS] == list(
        DOCSTRING_SECTIONS
    )


def test_a_prefix_lists_its_family(rnncheck: Any) -> None:
    done = rnncheck("rule", "WR", "--format", "json")
    codes = [one["code"] for one in json.loads(done.stdout)]
    assert codes == [entry.code for entry in entries() if entry.code.startswith("WR")]


def test_json_has_everything(rnncheck: Any) -> None:
    entry = entries()[0]
    (one,) = json.loads(rnncheck("rule", entry.code, "--format", "json").stdout)
    assert one["summary"] == entry.summary
    assert one["sections"] == entry.sections


def test_markdown_fences_the_example(rnncheck: Any) -> None:
    entry = entries()[0]
    text = rnncheck("rule", entry.code, "--format", "markdown").stdout
    assert text.startswith(f"# {entry.code} {entry.name}")
    assert f"## Example\n\n```\n{entry.sections['Example']}\n```" in text


def test_code_in_a_text_has_single_backticks(rnncheck: Any) -> None:
    for args in ((), ("BD303",), ("BD303", "--format", "markdown")):
        text = rnncheck("rule", *args).stdout.replace("```", "")
        assert "``" not in text
        assert "`is_init`" in text or "`torch.where`" in text


@pytest.mark.parametrize(("more", "styled"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_code_is_styled_on_a_terminal_with_colours(more: dict[str, str], styled: bool) -> None:
    text = on_a_terminal("rule", "BD303", **more)
    assert ("`torch.where`" not in text) is styled
    assert ("\x1b[36mtorch.where\x1b[0m" in text) is styled


def on_a_terminal(*args: str, **more: str) -> str:
    """What the command line writes to a pseudo-terminal."""
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", START, *args]
    running = subprocess.Popen(command, stdout=theirs, env=env | {"PYTHONPATH": str(ROOT)} | more)
    os.close(theirs)
    text = b""
    with contextlib.suppress(OSError):  # Linux ends a pseudo-terminal with EIO
        while part := os.read(ours, 4096):
            text += part
    os.close(ours)
    assert running.wait() == 0
    return text.decode()


def test_markdown_lists_every_check_under_its_family(rnncheck: Any) -> None:
    lines = rnncheck("rule", "--format", "markdown").stdout.splitlines()
    families = list(dict.fromkeys(entry.family for entry in entries()))
    assert [line.removeprefix("### ") for line in lines if line.startswith("#")] == families
    listed = [line.split("**")[1] for line in lines if line.startswith("- ")]
    assert listed == [entry.code for entry in entries()]
    assert max(map(len, lines)) <= 100


def test_an_unknown_code_names_the_nearest_and_exits_2(rnncheck: Any) -> None:
    entry = entries()[0]
    done = rnncheck("rule", entry.name[:-1] + "x")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no check is called" in done.stderr
    assert f"did you mean {entry.name!r}?" in done.stderr
    assert "Traceback" not in done.stderr
