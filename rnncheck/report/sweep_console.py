"""A sweep in a terminal: a table for each group with bars, then what to run."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from rnncheck.report import sweep, text
from rnncheck.report.layout import ellipsis_for, hanging, paragraph, shorten
from rnncheck.report.sweep import HEADINGS, Row
from rnncheck.report.terminal import is_ascii
from rnncheck.results.cells import Status
from rnncheck.results.claims import Answer
from rnncheck.results.model import Run

BAR = 10  # cells of a bar: chosen, it shows tenths
GAP = 2  # cells between two columns
_STYLES = {Status.OK: "", Status.WRONG: "bold red", Status.CANNOT: "dim", Status.SKIPPED: "dim"}
ANSWERS = {
    Answer.HOLDS: "green",
    Answer.FAILS: "bold red",
    Answer.UNCLEAR: "yellow",
    Answer.UNTESTED: "dim",
}
WHY_AT = 25  # cells before a claim's text: 2, the longest answer (cannot be tested here), 2
LOUD = "bold magenta"  # what failed, hung or died
TIME, LAST = HEADINGS.index("time"), len(HEADINGS) - 1
DROPPED = (
    "first call",
    "memory",
    "±",
    "error",
)  # left out in this order where the terminal is narrow


def sweep_lines(run: Run, console: Console, verbose: bool) -> Iterator[Text]:
    """The tables and the recommendations."""
    groups = sweep.rows_by_group(run)
    rows = [row for group in groups.values() for row in group]
    widths = [max(len(h), *(len(row.texts[i]) for row in rows)) for i, h in enumerate(HEADINGS)]
    columns = _columns(widths, console.width)
    for name, group in groups.items():
        yield Text()
        yield Text(text.clean(name), style="bold")
        yield _line(HEADINGS, columns, widths, "dim", " " * BAR)
        for row in group:
            style = _STYLES.get(row.result.status, LOUD)
            yield _line(row.texts, columns, widths, style, _bar(row, console))
            yield from _notes(row, console, verbose)
    for found in run.recommendations:
        yield Text()
        head, *rest = sweep.advice(found)
        yield from paragraph(console, Text(head, style="bold"))
        for line in rest:
            yield from paragraph(console, Text(line.strip()), GAP)
    if run.claims:
        yield Text()
        yield Text("what the documentation says", style="bold")
    for claim in run.claims:
        answer = Text(f"  {claim.answer}", style=ANSWERS[claim.answer])
        yield from hanging(console, answer, Text(text.clean(f"{claim.text}: {claim.why}")), WHY_AT)
    if run.scalings:
        yield Text()
    for scaling in run.scalings:
        yield from paragraph(console, Text(text.clean(scaling.sentence)))


def _columns(widths: list[int], room: int) -> list[int]:
    """The columns that fit, without the notes, which have lines of their own."""
    kept = list(range(LAST))
    for name in DROPPED:
        if GAP + BAR + sum(widths[i] + GAP for i in kept) <= room:
            break
        kept.remove(HEADINGS.index(name))
    return kept


def _line(
    texts: tuple[str, ...], columns: list[int], widths: list[int], style: str, bar: str
) -> Text:
    line = Text(" " * GAP, style=style)
    for column in columns:
        cell = texts[column]
        shown = cell.ljust(widths[column]) if column == 0 else cell.rjust(widths[column])
        line.append(shown + " " * GAP)
        if column == TIME:
            line.append(bar + " " * GAP, style="cyan" if style == "" else style)
    line.rstrip()
    return line


def _bar(row: Row, console: Console) -> str:
    """Its time against the slowest of the group."""
    full = round(row.share * BAR)
    mark = "#" if is_ascii(console) else "━"
    return (mark * max(full, 1 if row.share else 0)).ljust(BAR)


def _notes(row: Row, console: Console, verbose: bool) -> Iterator[Text]:
    notes = sweep.notes(row.result)
    if not notes:
        return
    said = "; ".join(notes)
    indent = 2 * GAP
    if verbose or row.result.status is not Status.OK:
        yield from paragraph(console, Text(said, style="yellow"), indent)
        return
    room = console.width - indent
    yield Text(" " * indent + shorten(said, room, ellipsis_for(console)), style="yellow")
