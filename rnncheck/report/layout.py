"""Lines with a hanging indent, measured in terminal cells: nothing runs over the width, nothing is
padded to it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from rnncheck.report.terminal import is_ascii
from rnncheck.report.text import clean_code
from rnncheck.results.model import Source

GUTTER = 4  # cells before a code frame: chosen, deeper than the facts around it


def hanging(console: Console, label: Text, content: Text, indent: int) -> Iterator[Text]:
    """``label``, then ``content`` wrapped at words in the columns right of ``indent``."""
    lines = content.wrap(console, max(console.width - indent, 1))
    for number, line in enumerate(lines or [Text()]):
        line.rstrip()
        head = label.copy() if number == 0 else Text()
        if line.plain:
            head.pad_right(max(indent - head.cell_len, 0))
        yield head.append_text(line)


def paragraph(console: Console, content: Text, indent: int = 0) -> Iterator[Text]:
    """``content`` wrapped at words, indented."""
    return hanging(console, Text(), content, indent)


def shorten(content: str, room: int, ellipsis: str) -> str:
    """As many whole words of ``content`` as fit in ``room`` cells."""
    if cell_len(content) <= room:
        return content
    kept = ""
    for word in content.split(" "):
        longer = f"{kept} {word}" if kept else word
        if cell_len(longer) + 1 + len(ellipsis) > room:
            break
        kept = longer
    return f"{kept} {ellipsis}" if kept else set_cell_size(content, room - len(ellipsis)) + ellipsis


def ellipsis_for(console: Console) -> str:
    """The sign for "it goes on"."""
    return "..." if is_ascii(console) else "…"


def frame(console: Console, source: Source) -> Iterator[Text]:
    """A few lines around the one to change, as an editor would show them; the one is marked."""
    bar, mark = ("|", ">") if is_ascii(console) else ("│", "❯")
    digits = len(str(max((number for number, _ in source.frame), default=0)))
    for number, content in source.frame:
        marked = number == source.line
        head = f"{' ' * GUTTER}{mark if marked else ' '} {number:>{digits}} {bar} "
        code = _cut(clean_code(content), console.width - len(head), ellipsis_for(console))
        line = Text(head, style="red" if marked else "dim")
        line.append(code, style="bold" if marked else "dim").rstrip()
        yield line


def _cut(content: str, room: int, ellipsis: str) -> str:
    """``content`` in at most ``room`` cells."""
    if cell_len(content) <= room:
        return content
    return set_cell_size(content, max(room - len(ellipsis), 0)) + ellipsis
