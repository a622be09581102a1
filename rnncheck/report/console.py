"""The report in a terminal: a line for each family, what was not told, and the last lines, which
say what to do. With ``verbose`` every check, and each finding with its source."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from rnncheck.report import gate_console, sweep_console, text
from rnncheck.report.causes import facts_of, findings_in_order, root_of, row_title, told_causes
from rnncheck.report.ending import cause_lines, last_lines, verdict_lines
from rnncheck.report.layout import ellipsis_for, frame, hanging, paragraph, shorten
from rnncheck.report.memory import memory_sections
from rnncheck.report.pictures.in_text import exhibit_lines
from rnncheck.report.printed import printed
from rnncheck.report.terminal import text_console
from rnncheck.results.memory import MemoryResult
from rnncheck.results.model import CheckResult, Finding, Outcome, Run, Severity, Source
from rnncheck.results.verdict import fails

WIDTH = 100  # columns of a report in a file, chosen: as the code that the frames show
OUTCOME_AT = 2  # cells before a row's outcome
_NAME_AT = 17  # cells before a row's code and name: 2, the longest outcome (could not look), 1
SAW_ROOM = 24  # cells below which the last column is left out: chosen, three or four words a line
VALUE_AT = 13  # cells before a fact's value: 2, the longest label (passes at), 2
_STYLES = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "bold red",
    Outcome.ERROR: "bold magenta",
    Outcome.NOT_LOOKED: "yellow",
    Outcome.DEFERRED: "dim",
    Outcome.NOT_APPLICABLE: "dim",
    Outcome.VACUOUS: "yellow",
    Outcome.SKIPPED: "dim",
}
WARNING = "bold yellow"
ACCEPTED = "cyan"


def render(run: Run, width: int = WIDTH, quiet: bool = False, verbose: bool = False) -> str:
    """The report as plain text."""
    console = text_console(width)
    show_run(run, console, quiet, verbose)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def render_check(check: CheckResult, width: int = WIDTH) -> str:
    """The findings of one check as plain text."""
    console = text_console(width)
    shown: set[Source] = set()
    check = printed(check)
    for number, finding in enumerate(check.findings, 1):
        heading = _heading(check, finding, number, "")
        for line in _finding(heading, finding, text.facts(finding), console, shown):
            console.print(line)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().strip("\n")


def show_run(run: Run, console: Console, quiet: bool = False, verbose: bool = False) -> None:
    """Write the report to ``console``: with ``quiet`` what failed and the verdict, with ``verbose``
    what all checks saw and every finding."""
    run = printed(run)
    for line in _quiet(run, console) if quiet else _report(run, console, verbose):
        console.print(line)


def _report(run: Run, console: Console, verbose: bool) -> Iterator[Text]:
    yield from paragraph(console, Text(text.header(run), style="bold"))
    if run.cells:
        yield from sweep_console.sweep_lines(run, console, verbose)
    yield from gate_console.gate_lines(run, console, verbose)
    if run.memory is not None:
        yield from _memory(run.memory, console, verbose)
    if verbose:
        yield from _table(run, console)
        yield from _findings(run, console)
    else:
        yield from _families(run, console)
        yield from _other_causes(run, console)
    yield from _untold(run, console, verbose)
    for told in told_causes(run)[:1]:
        yield from exhibit_lines(run.exhibits, told.check.code, console)
    yield Text()
    yield from last_lines(run, console, verbose)


def _memory(found: MemoryResult, console: Console, verbose: bool) -> Iterator[Text]:
    """The answers of a study; its lines have columns, and are wrapped only where they must be."""
    for heading, lines in memory_sections(found, verbose=verbose):
        yield Text()
        yield Text(heading, style="bold")
        for line in lines:
            style = WARNING if line.startswith("warning") else ""
            inner = len(line) - len(line.lstrip())
            yield from paragraph(console, Text(line.lstrip(), style=style), OUTCOME_AT + inner)


def _quiet(run: Run, console: Console) -> Iterator[Text]:
    for check in run.checks:
        if text.outcome_word(check) in (Outcome.FAILED, Outcome.ERROR):
            told = Text(f"{check.outcome} ", style=_style(run, check))
            yield from paragraph(console, told.append(text.title(check), style="default"))
    yield from gate_console.failing_lines(run, console)
    yield from verdict_lines(run, console)


def _families(run: Run, console: Console) -> Iterator[Text]:
    """A line for each family, and a row for each of its checks that failed or crashed, accepted or
    not."""
    groups = text.by_family(run.checks)
    width = max((cell_len(family) for family in groups), default=0) + 2
    if groups:
        yield Text()
    for family, checks in groups.items():
        head = Text(family, style="bold")
        yield from hanging(console, head, Text(text.family_line(checks)), width)
        for check in checks:
            if check.outcome in (Outcome.FAILED, Outcome.ERROR):
                yield from _row(run, check, console)


def _row(run: Run, check: CheckResult, console: Console) -> Iterator[Text]:
    """A failed check: what it saw, the cause that it follows from, or why it is accepted."""
    name = _name(run, check)
    root = root_of(run, check)
    known = text.clean(check.accepted)
    saw = f"see {text.clean(root)}" if root else known or _saw(check).plain
    room = console.width - name.cell_len - 2
    if room < SAW_ROOM:
        yield from hanging(console, name[:_NAME_AT], name[_NAME_AT:], _NAME_AT)
        return
    short = shorten(saw, room, ellipsis_for(console))
    yield from hanging(console, name, Text(short), name.cell_len + 2)


def _other_causes(run: Run, console: Console) -> Iterator[Text]:
    """The causes but the first, which the report ends with."""
    for told in told_causes(run)[1:]:
        yield Text()
        yield from cause_lines(told, console)


def _table(run: Run, console: Console) -> Iterator[Text]:
    """Every check: what holds or its name, and what it saw."""
    for family, checks in text.by_family(run.checks).items():
        yield Text()
        yield Text(family, style="bold")
        names = [_name(run, check) for check in checks]
        saw_at = max(name.cell_len for name in names) + 2
        for name, check in zip(names, checks, strict=True):
            saw = _saw(check)
            if console.width - saw_at < SAW_ROOM:
                yield from hanging(console, name[:_NAME_AT], name[_NAME_AT:], _NAME_AT)
                yield from paragraph(console, saw, _NAME_AT) if saw else ()
            else:
                yield from hanging(console, name, saw, saw_at)


def _name(run: Run, check: CheckResult) -> Text:
    row = Text(" " * OUTCOME_AT).append(text.outcome_word(check), style=_style(run, check))
    row.pad_right(_NAME_AT - row.cell_len)
    return row.append(
        row_title(run, check), style="dim" if check.outcome is Outcome.SKIPPED else ""
    )


def _saw(check: CheckResult) -> Text:
    """What the check saw."""
    loud = check.outcome in (Outcome.FAILED, Outcome.ERROR)
    warns = text.outcome_word(check) == Outcome.FAILED and check.severity is Severity.WARNING
    return Text(("warning: " if warns else "") + text.saw(check), style="" if loud else "dim")


def _style(run: Run, check: CheckResult) -> str:
    if check.accepted:
        return ACCEPTED
    light = check.outcome is Outcome.FAILED and not fails(check, strict=run.strict)
    return WARNING if light else _STYLES[check.outcome]


def _findings(run: Run, console: Console) -> Iterator[Text]:
    """Every finding, causes first; the source of each is shown once."""
    shown: set[Source] = set()
    for check, number, finding in findings_in_order(run):
        heading = _heading(check, finding, number, _style(run, check))
        yield from _finding(heading, finding, facts_of(run, check, finding), console, shown)


def _finding(
    heading: Text,
    finding: Finding,
    facts: list[tuple[str, str]],
    console: Console,
    shown: set[Source],
) -> Iterator[Text]:
    yield Text()
    yield from paragraph(console, heading)
    yield from paragraph(console, Text(text.clean(finding.message)), OUTCOME_AT)
    yield from _facts(facts, console)
    if finding.source and finding.source not in shown:
        shown.add(finding.source)
        yield from frame(console, finding.source)


def _heading(check: CheckResult, finding: Finding, number: int, style: str) -> Text:
    count = f", {number} of {len(check.findings)}" if len(check.findings) > 1 else ""
    return Text.assemble(
        (text.title(check), style),
        (f"  {check.severity}, {finding.stage}{count}", "dim"),
    )


def _facts(facts: list[tuple[str, str]], console: Console) -> Iterator[Text]:
    for label, value in facts:
        head = Text(" " * OUTCOME_AT).append(label, style="dim")
        content = Text(value, style="bold" if label == "fix" else "")
        yield from hanging(console, head, content, VALUE_AT)


def _untold(run: Run, console: Console, verbose: bool) -> Iterator[Text]:
    """What was not verified and why, and the notices; what is impossible, or told by another
    check, only with ``verbose``."""
    untold = (Outcome.NOT_LOOKED, Outcome.VACUOUS, Outcome.SKIPPED)
    for outcome in (Outcome.ERROR, *(text.UNANSWERED if verbose else untold)):
        lines = _reasons(run, outcome)
        if lines:
            yield Text()
            yield Text(text.spelled(outcome), style=_STYLES[outcome])
        for line in lines:
            yield from paragraph(console, Text(line), OUTCOME_AT)
    notes = [*text.broken_stages(run), text.unchecked(run), *map(text.clean, run.notices)]
    if any(notes):
        yield Text()
    for note in notes:
        yield from paragraph(console, Text(note)) if note else ()


def _reasons(run: Run, outcome: Outcome) -> list[str]:
    if outcome is Outcome.ERROR:
        return text.crashed(run)
    groups = text.by_reason(run, outcome)
    return [f"{', '.join(codes)}: {reason}" for reason, codes in groups.items()]
