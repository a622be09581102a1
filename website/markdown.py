"""Pieces of Markdown that the generated pages are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; what would end a cell is escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def stacked(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose rows are stacked on a narrow screen; its cells say what they are by
    themselves."""
    return "{.stacked}\n" + table(heads, rows)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", r"\|").split())


def code(text: str) -> str:
    """The text as code in a line; nothing for nothing."""
    return f"`{text}`" if text else ""


def block(text: str, language: str) -> str:
    """The text as a block of code, fenced so that no backticks of its own end it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def plain(text: str) -> str:
    """Prose in which only code in backticks is marked up."""
    parts = re.split("(``[^`]+``|`[^`]+`)", text)
    return "".join(
        part.replace("``", "`") if part.startswith("`") else re.sub(r"([\\*_<\[\]])", r"\\\1", part)
        for part in parts
    )


def page(title: str, *parts: str) -> str:
    """A page; empty parts are left out."""
    return "\n\n".join([f"# {title}", *filter(None, parts)]) + "\n"


def contents(pages: Iterable[str], *, hidden: bool = True) -> str:
    """The pages below this one, for the site's own navigation."""
    head = ":hidden:\n" if hidden else ""
    return f"```{{toctree}}\n{head}\n" + "\n".join(pages) + "\n```"
