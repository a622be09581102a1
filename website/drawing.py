"""The fault of each check, drawn: lanes over steps, what is wrong marked, and where it leaks.

``website/faults/<family>.toml`` has an entry for each check:

- ``says``: what is to be seen, in a sentence
- ``lanes``: ``"name: cell cell …"``; a cell that ends in ``!`` is wrong; ``~`` stands for a space
- ``columns``: what the columns are, where they are not steps
- ``leak``: ``"2>3"``: from which column into which
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "faults"

HIGH, GAP, TOP, MARGIN = 30, 4, 44, 12  # pixels: a cell, between cells, above the lanes, around
LETTER = 7.6  # pixels: the width of a letter of 13 pixels, about
NARROW = 48  # pixels: the least width of a cell
# By the episode that a cell belongs to. Light grounds that stay apart for the colour-blind, too.
GROUNDS = {"a": "#dfe9f7", "b": "#f7e6d5"}
PLAIN, WRONG, INK, FAINT = "#f4f4f4", "#b3261e", "#222222", "#666666"


@dataclass(frozen=True)
class Drawing:
    """One fault: its lanes, each a name and its cells."""

    says: str
    lanes: tuple[tuple[str, tuple[str, ...]], ...]
    columns: tuple[str, ...]
    leak: tuple[int, int] | None = None


@cache
def drawings() -> dict[str, Drawing]:
    """Every drawing by the code of its check."""
    found: dict[str, Drawing] = {}
    for file in sorted(FOLDER.glob("*.toml")):
        for code, entry in tomllib.loads(file.read_text("utf-8")).items():
            found[code] = _read(code, entry)
    return found


def _read(code: str, entry: dict[str, object]) -> Drawing:
    lanes = tuple(_lane(str(lane)) for lane in _listed(entry["lanes"]))
    wide = {len(cells) for _, cells in lanes}
    columns = tuple(str(entry["columns"]).split()) if "columns" in entry else ()
    if len(wide | ({len(columns)} if columns else set())) != 1:
        raise ValueError(f"{code}: lanes of unequal length: {wide}, columns {len(columns)}")
    start, _, goal = str(entry.get("leak", "")).partition(">")
    return Drawing(
        says=str(entry["says"]),
        lanes=lanes,
        columns=columns or tuple(str(number) for number in range(wide.pop())),
        leak=(int(start), int(goal)) if start else None,
    )


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _lane(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, cells = text.partition(": ")
    return name, tuple(cells.split())


def svg(drawing: Drawing) -> str:
    """The drawing as SVG, on a light ground of its own."""
    left = MARGIN + max(len(name) for name, _ in drawing.lanes) * LETTER + MARGIN
    cells = [cell for _, row in drawing.lanes for cell in (*row, *drawing.columns)]
    cell = max(NARROW, max(map(len, cells)) * LETTER + GAP)
    wide = round(left + len(drawing.columns) * (cell + GAP) + MARGIN)
    high = TOP + len(drawing.lanes) * (HIGH + GAP) + MARGIN
    label = escape(drawing.says, quote=True)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" '
        f'height="{high}" role="img" aria-label="{label}" font-family="sans-serif" '
        'font-size="13">'
    )
    ground = f'<rect width="{wide}" height="{high}" rx="8" fill="#ffffff" stroke="#cccccc"/>'
    parts = [head, ground, *_columns(drawing, left, cell), *_rows(drawing, left, cell)]
    parts += _leak(drawing, left, cell, high)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _columns(drawing: Drawing, left: float, cell: float) -> Iterator[str]:
    for number, name in enumerate(drawing.columns):
        middle = left + number * (cell + GAP) + cell / 2
        yield _text(middle, TOP - 10, name, fill=FAINT)


def _rows(drawing: Drawing, left: float, cell: float) -> Iterator[str]:
    for row, (name, cells) in enumerate(drawing.lanes):
        top = TOP + row * (HIGH + GAP)
        yield _text(left - MARGIN, top + 20, name, fill=INK, anchor="end")
        for number, value in enumerate(cells):
            yield from _cell(left + number * (cell + GAP), top, cell, value)


def _cell(x: float, y: float, wide: float, value: str) -> Iterator[str]:
    wrong, shown = value.endswith("!"), value.removesuffix("!")
    ground = GROUNDS.get(shown[:1], PLAIN) if shown[1:].isdigit() or len(shown) == 1 else PLAIN
    edge = f'stroke="{WRONG}" stroke-width="2.5"' if wrong else 'stroke="#999999"'
    yield f'<rect x="{x:.0f}" y="{y}" width="{wide:.0f}" height="{HIGH}" fill="{ground}" {edge}/>'
    if wrong:  # marked by more than its colour
        yield _text(x + wide - 6, y + 11, "✗", fill=WRONG, size=10)
    yield _text(x + wide / 2, y + 20, shown, fill=WRONG if wrong else INK, bold=wrong)


def _leak(drawing: Drawing, left: float, cell: float, high: int) -> Iterable[str]:
    """A dashed line between the two columns, and an arrow across it."""
    if drawing.leak is None:
        return []
    start, goal = (left + at * (cell + GAP) + cell / 2 for at in drawing.leak)
    border = left + max(drawing.leak) * (cell + GAP) - GAP / 2
    step = 7 if goal > start else -7
    line = f'stroke="{WRONG}" stroke-width="2" fill="none"'
    return [
        f'<path d="M{border:.0f} 8V{high - 6}" {line} stroke-dasharray="5 4"/>',
        f'<path d="M{start:.0f} 14H{goal:.0f}m{-step} -5l{step} 5l{-step} 5" {line}/>',
    ]


def _text(
    x: float,
    y: float,
    text: str,
    *,
    fill: str,
    anchor: str = "middle",
    bold: bool = False,
    size: int = 0,
) -> str:
    marks = (' font-weight="bold"' if bold else "") + (f' font-size="{size}"' if size else "")
    shown = escape("·" if text == "." else text.replace("~", " "))
    return f'<text x="{x:.0f}" y="{y}" text-anchor="{anchor}" fill="{fill}"{marks}>{shown}</text>'
