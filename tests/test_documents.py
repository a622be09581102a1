"""The documents: they fit a terminal, their links lead somewhere, and what they show exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from ruamel.yaml import YAML
from typer.core import TyperGroup

from rnncheck.checks.catalogue import entries
from rnncheck.cli.app import app
from rnncheck.cli.rule import markdown_list

ROOT = Path(__file__).parent.parent
FOLDERS = ("docs", "fixtures", "rnncheck", "templates", "benchmarks", "tests")
WIDTH = 100  # columns: a terminal beside an editor
README_LINES = 150  # what a newcomer reads in one go

FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def read_by_people(file: Path) -> bool:
    """Not the data of stored runs, nor the reports that a test compares with."""
    return not {"runs", "__snapshots__"} & set(file.parts) and ".rnncheck" not in file.parts


def documents() -> list[Path]:
    below = (file for folder in FOLDERS for file in (ROOT / folder).rglob("*.md"))
    return sorted(filter(read_by_people, [*ROOT.glob("*.md"), *below]))


@cache
def read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


ALL = pytest.mark.parametrize("file", documents(), ids=name)
README = read(ROOT / "README.md")
TEXT = "\n".join(map(read, documents()))


def too_long(line: str) -> bool:
    """A line that could have been wrapped: one token alone, such as a URL, cannot."""
    words = re.sub(r"^\s*([-*>]|\d+\.)\s", "", line).split()
    return len(line) > WIDTH and len(words) > 1


@ALL
def test_lines_fit_a_terminal(file: Path) -> None:
    lines = enumerate(read(file).splitlines(), start=1)
    assert [f"{name(file)}:{number}" for number, line in lines if too_long(line)] == []


@pytest.mark.parametrize(
    ("line", "long"),
    [
        ("word " * 20 + "end", True),
        ("- " + "x" * WIDTH, False),
        ("| " + "x" * WIDTH + " |", True),
        ("x" * WIDTH, False),
    ],
)
def test_a_line_of_one_token_may_be_longer(line: str, long: bool) -> None:
    assert too_long(line) is long


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= README_LINES


def anchors(file: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them; a repeated one is numbered."""
    found: dict[str, int] = {}
    for heading in re.findall(r"(?m)^#+ (.+)$", FENCED.sub("", read(file))):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        found[slug] = found.get(slug, 0) + 1
    return {slug if not n else f"{slug}-{n}" for slug, count in found.items() for n in range(count)}


def links(file: Path) -> Iterator[tuple[str, Path, str]]:
    """Every relative link outside of code: as written, its file, its anchor."""
    prose = re.sub(r"`[^`]*`", "", FENCED.sub("", read(file)))
    for target in LINK.findall(prose):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield target, (file.parent / path).resolve() if path else file, anchor


@ALL
def test_every_relative_link_resolves(file: Path) -> None:
    broken = [
        written
        for written, goal, anchor in links(file)
        if not goal.exists() or (anchor and anchor not in anchors(goal))
    ]
    assert broken == []


def test_anchors_are_those_of_github() -> None:
    found = anchors(ROOT / "docs" / "checks.md")
    assert {"torchrls-own-tutorials", "what-is-checked", "the-checks-own-check"} <= found


def test_every_document_is_linked() -> None:
    linked = {goal for _, goal, _ in links(ROOT / "README.md")}
    home = ROOT / "docs" / "index.md"
    assert home in linked
    below = {goal for _, goal, _ in links(home)}
    assert set((ROOT / "docs").rglob("*.md")) <= linked | below
    assert {ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"} <= linked


def test_a_page_names_every_command() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    named = re.findall(r"(?m)^\| `rnncheck ([a-z]+)`", read(ROOT / "docs" / "commands.md"))
    assert sorted(named) == sorted(group.commands)


def test_the_readme_counts_the_checks() -> None:
    assert f"[{len(entries())} checks](docs/checks.md)" in README


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def commands() -> list[list[str]]:
    lines = "\n".join(blocks("sh")).splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    inline = [shlex.split(text) for text in re.findall(r"`(rnncheck [^`]+)`", TEXT)]
    shown = [line for line in [*words, *inline] if line[:1] == ["rnncheck"]]
    return [list(line) for line in dict.fromkeys(map(tuple, shown))]


def specs() -> list[str]:
    return [block for block in blocks("yaml") if block.startswith("schema:")]


@pytest.fixture(scope="module")
def help_of(rnncheck: Any) -> Any:
    """What a command says to ``--help``; the documents show each with many options."""
    return cache(lambda *command: rnncheck(*command, "--help"))


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_and_option_exists(help_of: Any, words: list[str]) -> None:
    flags = [word.split("=")[0] for word in words if word.startswith("-")]
    path = [word for word in words[1:3] if re.fullmatch("[a-z]+", word)]
    command = path if path[:1] == ["spec"] else path[:1]
    done = help_of(*command)
    assert done.returncode == 0, done.stderr
    assert [flag for flag in flags if flag not in done.stdout] == []


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`make ([a-z-]+)", TEXT))))
def test_every_make_target_exists(target: str) -> None:
    assert re.search(rf"(?m)^{target}:", read(ROOT / "Makefile"))


def test_the_list_of_checks_is_the_catalogue() -> None:
    text = read(ROOT / "docs" / "checks.md")
    shown = text.split("<!-- checks -->\n")[1].split("<!-- /checks -->")[0]
    assert shown.strip() == markdown_list(entries())


@pytest.mark.parametrize("text", specs())
def test_every_spec_validates(rnncheck: Any, tmp_path: Path, text: str) -> None:
    file = tmp_path / "rnncheck.yaml"
    file.write_text(text)
    for module, function in re.findall(r'factory: "(\w+):(\w+)"', text):  # the reader's own
        with (tmp_path / f"{module}.py").open("a") as source:
            source.write(f"def {function}(): ...\n")
    done = rnncheck("spec", "validate", str(file))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", blocks("yaml"))
def test_every_snippet_is_yaml(text: str) -> None:
    assert isinstance(YAML(typ="safe").load(text), dict)


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:fixtures|rnncheck|tests|benchmarks)/[\w./]+)`", TEXT)))
)
def test_every_named_file_exists(path: str) -> None:
    assert (ROOT / path).exists()
