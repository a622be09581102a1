"""``rnncheck rule``: explains a check, or lists them. Imports neither torch nor the checks."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rnncheck.cli.options import complete_codes

if TYPE_CHECKING:
    from rnncheck.checks.catalogue import Catalogue, Entry

_MARKDOWN_WIDTH = 100  # columns: what the documents that people read in a terminal keep to


WIDTH = 88  # columns of a page: chosen, long lines are hard to read
INDENT = 4  # columns before a section's text


class Format(StrEnum):
    """How ``rule`` prints."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def rule(
    code: Annotated[
        str,
        typer.Argument(
            metavar="[CODE|NAME|PREFIX]",
            help="BD301, state-crosses-reset or BD.",
            autocompletion=complete_codes,
        ),
    ] = "",
    as_format: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TEXT,
    spec: Annotated[
        Path | None,
        typer.Option("--spec", metavar="SPEC", help="With the checks that this spec adds."),
    ] = None,
) -> None:
    """Explain a check: what it looks at, why it matters, when it says nothing, how to fix it."""
    known = _catalogue(spec)
    chosen = known.match([code]) if code else known.entries
    one = len(chosen) == 1 and chosen[0]
    if as_format is Format.JSON:
        typer.echo(_json(chosen))
    elif one:
        typer.echo(_markdown_page(one) if as_format is Format.MARKDOWN else _text_page(one))
    elif as_format is Format.MARKDOWN:
        typer.echo(markdown_list(chosen))
    else:
        typer.echo(_text_table(chosen))


def _catalogue(spec: Path | None) -> Catalogue:
    from rnncheck.checks.engine.own_checks import catalogue_of, installed_catalogue

    if spec is None:
        return installed_catalogue()
    from rnncheck.spec.load import load_spec

    return catalogue_of(load_spec(spec))


def _json(chosen: Sequence[Entry]) -> str:
    from rnncheck.printable import json_text

    return json_text([_plain(entry) for entry in chosen], indent=2)


def _plain(entry: Entry) -> dict[str, Any]:
    return {
        "code": entry.code,
        "name": entry.name,
        "severity": str(entry.severity),
        "stage": str(entry.stage),
        "family": entry.family,
        "summary": entry.summary,
        "sections": entry.sections,
    }


def _text_table(chosen: Sequence[Entry]) -> str:
    width = max((len(entry.name) for entry in chosen), default=0)
    lines: list[str] = []
    for family, group in groupby(chosen, key=lambda entry: entry.family):
        lines += ["", _heading(family)]
        lines += [_row(entry, width) for entry in group]
    return "\n".join([*lines[1:], "", "rnncheck rule CODE explains one of them."])


def _heading(folder: str) -> str:
    from rnncheck.results.families import BY_FOLDER, OWN_CHECKS

    family = BY_FOLDER.get(folder, OWN_CHECKS)
    return f"{family.title}: {family.about}"


def _row(entry: Entry, width: int) -> str:
    mark = "W" if entry.severity == "warning" else "E"
    return f"  {entry.code}  {mark}  {entry.name:<{width}}  {_styled(entry.summary)}"


def _text_page(entry: Entry) -> str:
    import textwrap

    from rnncheck.checks.catalogue import prose

    parts = [_title(entry), "", _styled(textwrap.fill(entry.summary, WIDTH))]
    for title, body in entry.sections.items():
        text = body if title == "Example" else _styled(_wrap(prose(body)))
        parts += ["", title, textwrap.indent(text, " " * INDENT)]
    return "\n".join([*parts, *_address(entry)])


def _styled(text: str) -> str:
    """On a terminal with colours, `code` in the style of code; elsewhere the backticks stay."""
    import os
    import re
    import sys

    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return re.sub("`([^`]+)`", lambda found: typer.style(found[1], fg="cyan"), text)


def _wrap(text: str) -> str:
    import textwrap

    return "\n".join(
        line if line[:1].isspace() else textwrap.fill(line, WIDTH - INDENT)
        for line in text.splitlines()
    )


def _address(entry: Entry) -> list[str]:
    """Where its page is, if anywhere."""
    from rnncheck.results.addresses import check_address

    address = check_address(entry.code)
    return ["", f"page: {address}"] if address else []


def _title(entry: Entry) -> str:
    dear = " · not with --fast" if entry.dear else ""
    return f"{entry.code} {entry.name} · {entry.severity} · looks at {entry.stage}{dear}"


def _markdown_page(entry: Entry) -> str:
    from rnncheck.checks.catalogue import prose

    parts = [f"# {entry.code} {entry.name}", f"{entry.severity} · {entry.stage}", entry.summary]
    for title, body in entry.sections.items():
        parts += [f"## {title}", f"```\n{body}\n```" if title == "Example" else prose(body)]
    return "\n\n".join(parts)


def markdown_list(chosen: Sequence[Entry]) -> str:
    """The checks by family, as docs/checks.md has them; a test keeps the two equal."""
    parts: list[str] = []
    for family, group in groupby(chosen, key=lambda entry: entry.family):
        parts += [f"### {family}", "\n".join(map(_markdown_item, group))]
    return "\n\n".join(parts)


def _markdown_item(entry: Entry) -> str:
    import textwrap

    text = f"**{entry.code}** {entry.name} ({entry.severity}, {entry.stage}): {entry.summary}"
    return textwrap.fill(
        text,
        _MARKDOWN_WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
