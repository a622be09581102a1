"""``rnncheck rule``: explains a check, or lists them. Imports neither torch nor the checks."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rnncheck.checks.catalogue import Catalogue, Entry

FAMILIES = {
    "wiring": "read from specs and modules, one reset",
    "equivalence": "the same numbers step by step and all at once",
    "boundary": "nothing crosses where nothing may",
    "collect": "what the collector recorded",
    "precision": "in how many bits the recurrence is computed and kept",
}


class Format(StrEnum):
    """How ``rule`` prints."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def rule(
    code: Annotated[
        str, typer.Argument(metavar="[CODE|NAME|PREFIX]", help="BD301, state-crosses-reset or BD.")
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
        typer.echo(markdown_table(chosen))
    else:
        typer.echo(_text_table(chosen))


def _catalogue(spec: Path | None) -> Catalogue:
    from rnncheck.checks.engine.own_checks import catalogue_of, installed_catalogue

    if spec is None:
        return installed_catalogue()
    from rnncheck.spec.load import load_spec

    return catalogue_of(load_spec(spec))


def _json(chosen: Sequence[Entry]) -> str:
    import json

    return json.dumps([_plain(entry) for entry in chosen], indent=2)


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


def _heading(family: str) -> str:
    return f"{family}: {FAMILIES[family]}" if family in FAMILIES else family


def _row(entry: Entry, width: int) -> str:
    mark = "W" if entry.severity == "warning" else "E"
    return f"  {entry.code}  {mark}  {entry.name:<{width}}  {entry.summary}"


def _text_page(entry: Entry) -> str:
    import textwrap

    from rnncheck.checks.catalogue import prose

    parts = [_title(entry), "", *textwrap.wrap(entry.summary, 88)]
    for title, body in entry.sections.items():
        text = body if title == "Example" else _wrap(prose(body))
        parts += ["", title, textwrap.indent(text, "    ")]
    return "\n".join(parts)


def _wrap(text: str) -> str:
    import textwrap

    return "\n".join(
        line if line[:1].isspace() else textwrap.fill(line, 84) for line in text.splitlines()
    )


def _title(entry: Entry) -> str:
    return f"{entry.code} {entry.name} · {entry.severity} · looks at {entry.stage}"


def _markdown_page(entry: Entry) -> str:
    from rnncheck.checks.catalogue import prose

    parts = [f"# {entry.code} {entry.name}", f"{entry.severity} · {entry.stage}", entry.summary]
    for title, body in entry.sections.items():
        parts += [f"## {title}", f"```\n{body}\n```" if title == "Example" else prose(body)]
    return "\n\n".join(parts)


def markdown_table(chosen: Sequence[Entry]) -> str:
    """The table of checks as the README has it; a test keeps the two equal."""
    head = ["| code | name | severity | stage | the fault |", "|---|---|---|---|---|"]
    return "\n".join([*head, *map(_markdown_row, chosen)])


def _markdown_row(entry: Entry) -> str:
    cells = (entry.code, entry.name, entry.severity, entry.stage, entry.summary)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
