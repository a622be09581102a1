"""What the README shows exists: its commands, their options, its table of checks, its specs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rnncheck.checks.catalogue import entries
from rnncheck.cli.rule import markdown_table

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[list[str]]:
    lines = "\n".join(blocks("sh")).splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    inline = [shlex.split(text) for text in re.findall(r"`(rnncheck [^`]+)`", README)]
    return [line for line in [*words, *inline] if line[:1] == ["rnncheck"]]


def workflow_commands() -> list[list[str]]:
    return [shlex.split(text) for text in re.findall(r"- run: (rnncheck .*)", README)]


def specs() -> list[str]:
    return [block for block in blocks("yaml") if block.startswith("schema:")]


@pytest.mark.parametrize("words", [*commands(), *workflow_commands()], ids=" ".join)
def test_every_command_and_option_exists(rnncheck: Any, words: list[str]) -> None:
    flags = [word.split("=")[0] for word in words if word.startswith("-")]
    path = [word for word in words[1:3] if re.fullmatch("[a-z]+", word)]
    command = path if path[:1] == ["spec"] else path[:1]
    done = rnncheck(*command, "--help")
    assert done.returncode == 0, done.stderr
    assert [flag for flag in flags if flag not in done.stdout] == []


@pytest.mark.parametrize("target", re.findall(r"`make ([a-z-]+)`", README))
def test_every_make_target_exists(target: str) -> None:
    assert re.search(rf"(?m)^{target}:", (ROOT / "Makefile").read_text())


def test_the_table_of_checks_is_the_catalogue() -> None:
    shown = README.split("<!-- checks -->\n")[1].split("<!-- /checks -->")[0]
    assert shown.strip() == markdown_table(entries())


@pytest.mark.parametrize("text", specs())
def test_every_spec_validates(rnncheck: Any, tmp_path: Path, text: str) -> None:
    file = tmp_path / "rnncheck.yaml"
    file.write_text(text)
    done = rnncheck("spec", "validate", str(file))
    assert done.returncode == 0, done.stderr


def test_the_workflow_is_yaml() -> None:
    (job,) = [block for block in blocks("yaml") if block.startswith("jobs:")]
    assert YAML(typ="safe").load(job)["jobs"]["recurrence"]["steps"]
