"""The cause's batch and who moves whom, as lines for a terminal.

One character a step: nothing is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from rnncheck.report.layout import paragraph
from rnncheck.report.pictures.bounds import bounded
from rnncheck.report.terminal import is_ascii
from rnncheck.results.exhibits import BatchStrip, Exhibits, FaultWay, StepMatrix, StripRow, WayPoint

_LINES = 4  # of a strip: chosen, the faulty row with its neighbours
_INDENT = 2
_LABEL = 10  # cells of a row's label
_FEW = 2  # points of a way that are told in full: chosen
_FAULT = "bold red"
_PLAIN, _ASCII = ("─", "━"), ("-", "=")
_MEANING = {
    ">": "start flag",
    "@": "start from a stored state",
    "!": "a stretch begins without a start flag",
    "]": "end of an episode",
    "~": "burn-in",
    " ": "",
}


def exhibit_lines(exhibits: Exhibits | None, code: str, console: Console) -> Iterator[Text]:
    """What was collected for the check with this code; nothing where that is nothing."""
    if exhibits is None:
        return
    exhibits = bounded(exhibits)
    for strip in [one for one in exhibits.strips if code in one.explains][:1]:
        yield from _strip(strip, console)
    for matrix in [m for m in exhibits.matrices if m.by_segment and code in m.explains][:1]:
        yield from _matrix(matrix, console)
    for way in [one for one in exhibits.ways if code in one.explains][:1]:
        yield from _way(way, console)


def _strip(strip: BatchStrip, console: Console) -> Iterator[Text]:
    yield Text()
    yield from paragraph(console, Text(strip.of, style="bold"))
    mark = strip.marks[0] if strip.marks else None
    at = 0 if mark is None else mark.line
    begin = max(0, min(at - 1, len(strip.rows) - _LINES))
    seen = set[str]()
    for number in range(begin, min(begin + _LINES, len(strip.rows))):
        place = mark.position if mark is not None and mark.line == number else None
        line = _row(strip.rows[number], place, console)
        seen |= set(line.plain[_INDENT + _LABEL :])
        yield line
    told = [f"{sign} {said}" for sign, said in _MEANING.items() if sign in seen and said]
    if mark is not None:
        step = strip.rows[mark.line].first + mark.position
        told.append(f"X {mark.code}, {_row_name(strip.rows[mark.line])}, step {step}")
    yield from paragraph(console, Text("; ".join(told), style="dim"), _INDENT)


def _row(line: StripRow, marked: int | None, console: Console) -> Text:
    """The steps of a row around the marked one, as many as fit."""
    room = max(console.width - _INDENT - _LABEL, 1)
    begin = max(0, min((marked or 0) - room // 2, len(line.segments) - room))
    found = Text(" " * _INDENT + f"{_short_name(line):<{_LABEL}}", style="dim")
    for step in range(begin, min(begin + room, len(line.segments))):
        style = _FAULT if step == marked else ""
        found.append("X" if step == marked else _sign(line, step, console), style=style)
    return found


def _sign(line: StripRow, step: int, console: Console) -> str:
    """What one character tells of a step, what weighs most first."""
    begins = step > 0 and line.segments[step] != line.segments[step - 1]
    flagged = step in line.starts
    signs = (
        (" ", step in line.padding),
        ("@", step in line.stored),
        (">", flagged),
        ("!", begins and line.segments[step] >= 0 <= line.segments[step - 1]),
        ("]", step in line.ends),
        ("~", step in line.burn_in),
    )
    plain = _ASCII if is_ascii(console) else _PLAIN
    return next((sign for sign, holds in signs if holds), plain[line.segments[step] % 2])


def _row_name(line: StripRow) -> str:
    return line.label.partition(",")[0]


def _short_name(line: StripRow) -> str:
    name = _row_name(line)
    return (f"{name} +{line.first}" if line.first else name)[: _LABEL - 1]


def _matrix(matrix: StepMatrix, console: Console) -> Iterator[Text]:
    """A line for each segment: which segments move what it gives."""
    own, foreign, none = ("#", "x", ".") if is_ascii(console) else ("■", "×", "·")
    yield Text()
    head = f"which segment (column) moves {matrix.output} of which (line), {matrix.of}"
    yield from paragraph(console, Text(head, style="bold"))
    for i, line in enumerate(matrix.values):
        row, step = matrix.places[i]
        text = Text(" " * _INDENT + f"{f'{row}:{step}':<{_LABEL}}", style="dim")
        for j, value in enumerate(line):
            wrong = value != 0 and not matrix.allowed(i, j)
            sign = none if value == 0 else foreign if wrong else own
            text.append(f"{sign} ", style=_FAULT if wrong and matrix.broken else "")
        text.rstrip()
        yield text
    said = f"{own} its own steps; {foreign} another segment's; segments by row:first step"
    yield from paragraph(console, Text(said, style="dim"), _INDENT)


def _way(way: FaultWay, console: Console) -> Iterator[Text]:
    arrow = " -> " if is_ascii(console) else " → "
    yield Text()
    yield from paragraph(
        console, Text(f"{way.of}: {arrow.join(map(way_point, way.points))}{_last_words(way)}")
    )


def way_point(point: WayPoint) -> str:
    """``loss next value at row 0, step 8``."""
    if not point.key:
        return point.said
    where = f" at {point.at}" if point.at else ""
    return f"{point.stage} {point.key}{where}"


def _last_words(way: FaultWay) -> str:
    """What is said of the point at which two runs part."""
    said = way.points[-1].said if way.points else ""
    return f" ({said})" if said and len(way.points) <= _FEW else ""
