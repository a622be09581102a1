"""``rnncheck rule``, through the CLI."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rnncheck.checks.catalogue import DOCSTRING_SECTIONS, entries


def test_it_lists_every_check_by_family(rnncheck: Any) -> None:
    done = rnncheck("rule")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for entry in entries():
        assert any(entry.code in line and entry.name in line for line in lines)
    assert [line.split(":")[0] for line in lines if line and line[0].isalpha()][:-1] == list(
        dict.fromkeys(entry.family for entry in entries())
    )


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


def test_an_unknown_code_names_the_nearest_and_exits_2(rnncheck: Any) -> None:
    entry = entries()[0]
    done = rnncheck("rule", entry.name[:-1] + "x")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no check is called" in done.stderr
    assert f"did you mean {entry.name!r}?" in done.stderr
    assert "Traceback" not in done.stderr
