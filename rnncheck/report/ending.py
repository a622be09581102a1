"""The last lines of a report in a terminal: what is read in ten seconds.

How the guarantees stand, the first cause with its line and its fix, what follows from it, and the
verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum

from rich.console import Console
from rich.text import Text

from rnncheck.report import gate_console, text
from rnncheck.report.causes import ToldCause, listed, told_causes
from rnncheck.report.layout import ellipsis_for, frame, hanging, paragraph, shorten
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Run, Source, Standing

LAST = 12  # lines that the report ends with where something failed: chosen, what one look takes in
VALUE_AT = 11  # cells before a line's value: the longest label (not shown), 2
_FIX_LINES = 4  # of a fix that would push the rest out of the last lines
_LOST = 8  # cells that wrapping at words leaves empty in a line: chosen, most of a long word
_STYLES = {"broken": "bold red", "shown": "green", "not shown": "yellow", "not asked": "dim"}
_VERDICTS = {ExitCode.VERIFIED: "bold green", ExitCode.FAILED: "bold red"}


class Detail(IntEnum):
    """How much the last lines say of each thing."""

    CUT = 0  # every part in a line, the fix in a few
    NAMES = 1  # guarantees by their names alone
    WHOLE = 2  # what is broken with its sentence, and the line of code
    ALL = 3  # every guarantee with its sentence


def last_lines(run: Run, console: Console, verbose: bool = False) -> list[Text]:
    """The last lines; where something failed, no more than ``LAST`` in a terminal of usual width,
    but with ``verbose``."""
    causes = told_causes(run)
    if verbose:
        return _lines(run, causes, console, Detail.ALL)
    for detail in (Detail.WHOLE, Detail.NAMES):
        lines = _lines(run, causes, console, detail)
        if not causes or len(lines) <= LAST:
            return lines
    return _lines(run, causes, console, Detail.CUT)


def cause_lines(told: ToldCause, console: Console) -> Iterator[Text]:
    """One cause by itself, with its code frame."""
    yield from _cause(told, console, Detail.NAMES)
    if told.finding and told.finding.source:
        yield from frame(console, told.finding.source)


def verdict_lines(run: Run, console: Console) -> Iterator[Text]:
    """The verdict in a sentence."""
    style = _VERDICTS.get(run.exit_code, "bold yellow")
    yield from paragraph(console, Text(text.verdict_sentence(run), style=style))


def _lines(run: Run, causes: list[ToldCause], console: Console, detail: Detail) -> list[Text]:
    lines = list(_guarantees(run, console, detail))
    if causes:
        lines += _cause(causes[0], console, detail)
    if others := [text.title(one.check) for one in causes[1:]]:
        lines += _labelled("also", listed(others), console, brief=detail is Detail.CUT)
    lines += gate_console.failing_lines(run, console)
    lines += verdict_lines(run, console)
    if step := text.next_step(run):
        lines += paragraph(console, Text(f"next: {step}"))
    return lines


def _guarantees(run: Run, console: Console, detail: Detail) -> Iterator[Text]:
    """A line for each that is broken, and for all that stand alike for the same reason."""
    unasked = list[str]()
    for word, found, why in text.standings(run):
        style, names = _STYLES[word], [text.clean(one.name) for one in found]
        broken = found[0].standing is Standing.BROKEN
        unseen = found[0].standing is Standing.NOT_SHOWN and detail is Detail.WHOLE
        if detail < Detail.WHOLE and found[0].standing is Standing.NOT_ASKED:
            unasked += names
        elif detail is Detail.ALL or (detail is Detail.WHOLE and broken):
            for one in found:
                said = f"{text.clean(one.name)}: {one.sentence}{f' ({why})' if why else ''}"
                brief = detail is Detail.WHOLE
                yield from _labelled(word, said, console, brief=brief, style=style)
        elif unseen and len(found) == 1:
            said = f"{names[0]}: {found[0].sentence}, because {why}"
            yield from _labelled(word, said, console, style=style)
        else:
            told = ", ".join(names) + (f": {why}" if why else "")
            yield from _labelled(word, told, console, brief=detail is Detail.CUT, style=style)
    if unasked:
        yield from _labelled("not asked", ", ".join(unasked), console, style=_STYLES["not asked"])


def _cause(told: ToldCause, console: Console, detail: Detail) -> Iterator[Text]:
    cut = detail is Detail.CUT
    head = f"{text.title(told.check)}: {told.message}"
    yield from _labelled("cause", head, console, brief=cut, style="bold red")
    for label, value in told.facts:
        lines = list(_labelled(label, value, console, style="bold" if label == "fix" else ""))
        room = _FIX_LINES if label == "fix" else 1
        if cut and len(lines) > room:
            short = _cut(value, (console.width - VALUE_AT - _LOST) * room, console)
            lines = list(_labelled(label, short, console))[:room]
        yield from lines
        if label == "at" and detail is Detail.WHOLE and told.finding and told.finding.source:
            yield from frame(console, marked_alone(told.finding.source))


def marked_alone(source: Source) -> Source:
    """``source`` with the line to change alone in its frame."""
    return replace(source, frame=tuple(one for one in source.frame if one[0] == source.line))


def _labelled(
    label: str, value: str, console: Console, *, brief: bool = False, style: str = ""
) -> Iterator[Text]:
    """``label`` and, right of all labels, ``value``: wrapped, or ``brief`` in one line."""
    said = _cut(value, console.width - VALUE_AT, console) if brief else value
    yield from hanging(console, Text(label, style=style or "dim"), Text(said), VALUE_AT)


def _cut(value: str, room: int, console: Console) -> str:
    return shorten(value, room, ellipsis_for(console))
