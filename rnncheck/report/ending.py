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
from rnncheck.results.endings import broke_off, raised
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Outcome, Run, Source, Standing

LAST = 12  # lines that the report ends with where something failed: chosen, what one look takes in
VALUE_AT = 11  # cells before a line's value: the longest label (not shown), 2
# Lines that the cause's message and its fix may take, the most that leave enough room.
_ROOMS = ((3, 4), (2, 4), (1, 4), (1, 3), (1, 2))
_LOST = 8  # cells that wrapping at words leaves empty in a line: chosen, most of a long word
_STYLES = {"broken": "bold red", "shown": "green", "not shown": "yellow", "not asked": "dim"}
_LABELS = {"cause": "bold red", "fix": "bold", "proved": "green"}
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
    told = bool(causes) or any(one.outcome is Outcome.ERROR for one in run.stages)
    for detail in (Detail.WHOLE, Detail.NAMES):
        lines = _lines(run, causes, console, detail)
        if not told or len(lines) <= LAST:
            return lines
    cut = [_lines(run, causes, console, Detail.CUT, room) for room in _ROOMS]
    return next((lines for lines in cut if len(lines) <= LAST), cut[-1])


def cause_lines(told: ToldCause, console: Console) -> Iterator[Text]:
    """One cause by itself, with its code frame."""
    yield from _cause(told, console, Detail.NAMES)
    if told.replay:
        yield from _labelled("replay", told.replay, console)
    if told.finding and told.finding.source:
        yield from frame(console, told.finding.source)


def verdict_lines(run: Run, console: Console) -> Iterator[Text]:
    """The verdict in a sentence."""
    style = _VERDICTS.get(run.exit_code, "bold yellow")
    yield from paragraph(console, Text(text.verdict_sentence(run), style=style))


def _lines(
    run: Run,
    causes: list[ToldCause],
    console: Console,
    detail: Detail,
    room: tuple[int, int] = _ROOMS[-1],
) -> list[Text]:
    lines = list(_guarantees(run, console, detail))
    if causes:
        lines += _cause(causes[0], console, detail, room)
    else:
        lines += _raised(run, console)
    if others := [text.title(one.check) for one in causes[1:]]:
        lines += _labelled("also", listed(others), console, brief=detail is Detail.CUT)
    lines += gate_console.failing_lines(run, console)
    lines += verdict_lines(run, console)
    if step := text.next_step(run):
        lines += paragraph(console, Text(f"next: {step}"))
    return lines


def _guarantees(run: Run, console: Console, detail: Detail) -> Iterator[Text]:
    """A line for each that is broken, and for all that stand alike for the same reason; with little
    room a line for all that stand alike."""
    if detail < Detail.WHOLE:
        groups: dict[str, list[str]] = {}
        for word, found, _ in text.standings(run):
            groups.setdefault(word, []).extend(text.clean(one.name) for one in found)
        for word, alike in groups.items():
            yield from _labelled(word, ", ".join(alike), console, style=_STYLES[word])
        return
    for word, found, why in text.standings(run):
        alone = len(found) == 1 and found[0].standing is Standing.NOT_SHOWN
        broken = found[0].standing is Standing.BROKEN
        if detail is Detail.ALL or broken or alone:
            for one in found:
                because = f", because {why}" if why else ""
                said = f"{text.clean(one.name)}: {one.sentence}{because}"
                brief = detail is Detail.WHOLE and broken
                yield from _labelled(word, said, console, brief=brief, style=_STYLES[word])
        else:
            names = ", ".join(text.clean(one.name) for one in found)
            said = f"{names}: {why}" if why else names
            yield from _labelled(word, said, console, style=_STYLES[word])


def _cause(
    told: ToldCause, console: Console, detail: Detail, room: tuple[int, int] = _ROOMS[-1]
) -> Iterator[Text]:
    head = f"{text.title(told.check)}: {told.message}"
    for label, value in [("cause", head), *told.facts]:
        style = _LABELS.get(label, "")
        lines = list(_labelled(label, value, console, style=style))
        most = {"cause": room[0], "fix": room[1]}.get(label, 1)
        if detail is Detail.CUT and len(lines) > most:
            fits = (console.width - VALUE_AT) * most - _LOST * (most - 1)
            short = _cut(value, fits, console)
            lines = list(_labelled(label, short, console, style=style))[:most]
        yield from lines
        if label == "at" and detail is Detail.WHOLE and told.finding and told.finding.source:
            yield from frame(console, marked_alone(told.finding.source))


def _raised(run: Run, console: Console) -> Iterator[Text]:
    """The first stage that raised, and the user's line in it."""
    stage = next((one for one in run.stages if one.outcome is Outcome.ERROR), None)
    if stage is None:
        return
    first = next(iter(text.clean_lines(stage.detail).splitlines()), "")
    ended = broke_off(first)
    label, said = (
        ("stage", raised(stage.stage, first)) if ended else ("raised", f"{stage.stage}: {first}")
    )
    yield from _labelled(label, said, console, style="bold magenta")
    if stage.source is not None:
        yield from _labelled("at", text.clean(text.source_place(stage.source)), console)
        yield from frame(console, stage.source)


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
