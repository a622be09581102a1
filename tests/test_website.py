"""The site: what is generated says what the code says, and the staged pages lead to each other.

Sphinx itself runs in `make docs`, where a warning is an error.
"""

from __future__ import annotations

import re
import typing
from functools import cache
from pathlib import Path

import pytest
import typer.main
from pydantic import BaseModel
from typer.core import TyperGroup

from rnncheck.checks.catalogue import entries
from rnncheck.cli.app import app
from rnncheck.results.exit_codes import MEANINGS, ExitCode
from rnncheck.spec.model import Component, Spec
from website.markdown import block, plain, table
from website.stage import ROOT, documents, stage, with_links_of_the_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    stage(folder)
    return folder


def read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.code)
def test_every_check_has_its_page(site: Path, entry: typing.Any) -> None:
    text = read(site / "checks" / f"{entry.code.lower()}.md")
    assert text.startswith(f"# {entry.code} {entry.name}\n")
    assert [title for title in entry.sections if f"\n## {title}\n" not in text] == []
    assert "**" in text  # its guarantee
    assert f"({entry.code.lower()}.md)" in read(site / "checks" / "index.md")


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.code)
def test_a_page_shows_the_broken_and_the_healthy_fixture(site: Path, entry: typing.Any) -> None:
    text = read(site / "checks" / f"{entry.code.lower()}.md")
    shown = re.findall(r"`(fixtures/[\w/]+\.yaml)`", text)
    assert len(shown) == 2
    assert all((ROOT / name).exists() for name in shown)


@cache
def models() -> dict[str, type[BaseModel]]:
    found: dict[str, type[BaseModel]] = {"Spec": Spec}
    queue: list[typing.Any] = [field.annotation for field in Spec.model_fields.values()]
    while queue:
        one = queue.pop()
        queue += typing.get_args(one)
        if isinstance(one, type) and issubclass(one, BaseModel) and one.__name__ not in found:
            found[one.__name__] = one
            queue += [field.annotation for field in one.model_fields.values()]
    return found


@pytest.mark.parametrize("name", models())
def test_every_key_of_a_spec_is_told_with_its_meaning(site: Path, name: str) -> None:
    text = read(site / "reference" / "spec-keys.md")
    title = "The whole" if name == "Spec" else name.removesuffix("Spec")
    if models()[name] is Component:
        pytest.skip("a component's own keys are its arguments")
    part = text.split(f"\n## {title}\n")[1].split("\n## ")[0]
    hidden = {"args", "at", "use", "factory"} if issubclass(models()[name], Component) else {"at"}
    for key, field in models()[name].model_fields.items():
        if key not in hidden:
            rows = [row for row in part.splitlines() if row.startswith(f"| `{field.alias or key}`")]
            assert len(rows) == 1, (name, key)
            assert not rows[0].endswith("|  |"), f"{name}.{key} has no description"


def test_every_command_and_option_is_told(site: Path) -> None:
    text = read(site / "reference" / "commands.md")
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    for name, command in group.commands.items():
        assert f"## rnncheck {name}" in text
        options = [one for one in command.params if one.param_type_name == "option"]
        part = text.split(f"## rnncheck {name}\n")[-1].split("\n## ")[0]
        assert [opt for one in options for opt in one.opts if f"`{opt}" not in part] == []


def test_every_exit_code_is_told(site: Path) -> None:
    assert set(MEANINGS) == set(ExitCode)
    text = read(site / "reference" / "exit-codes.md")
    assert re.findall(r"(?m)^\| (\d+) \|", text) == [str(int(code)) for code in ExitCode]


def test_every_relative_link_of_the_site_leads_to_a_page(site: Path) -> None:
    pages = list(site.rglob("*.md"))
    assert len(pages) > len(entries())
    broken = {
        f"{page.relative_to(site)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", re.sub("`[^`]+`", "", read(page)))
        if not (page.parent / target).exists()
    }
    assert broken == set()


def test_a_link_is_led_to_the_page_or_named_without_one() -> None:
    pages = documents()
    text = (
        "[a](../README.md#exit-codes) [b](../fixtures/specs) [`d`](spec.md)\n```\n[c](../x.md)\n```"
    )
    found = with_links_of_the_site(text, ROOT / "docs" / "checks.md", pages)
    assert found == "[a](project/readme.md#exit-codes) b [`d`](spec.md)\n```\n[c](../x.md)\n```"


def test_markdown_is_escaped() -> None:
    assert plain("a_b `c_d` [B, T]") == r"a\_b `c_d` \[B, T\]"
    assert table(("x",), [("a|b",)]).splitlines()[-1] == r"| a\|b |"
    assert block("```\nx\n```", "text").startswith("````text\n")
