"""The report in a terminal: the verdict table, then each finding with its source, then what was not
told."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.console import Console
from rich.text import Text

from rnncheck.report import gate_console, sweep_console, text
from rnncheck.report.layout import ellipsis_for, frame, hanging, paragraph, shorten
from rnncheck.report.printed import printed
from rnncheck.report.terminal import text_console
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import CheckResult, Finding, Outcome, Run, Severity, Source, Standing
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
_STANDINGS = {
    Standing.SHOWN: "green",
    Standing.BROKEN: "bold red",
    Standing.NOT_SHOWN: "yellow",
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
    for line in _findings_of(printed(check), console, "", set()):
        console.print(line)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().strip("\n")


def show_run(run: Run, console: Console, quiet: bool = False, verbose: bool = False) -> None:
    """Write the report to ``console``: with ``quiet`` what failed and the verdict, with ``verbose``
    what all checks saw."""
    run = printed(run)
    for line in _quiet(run, console) if quiet else _report(run, console, verbose):
        console.print(line)


def _report(run: Run, console: Console, verbose: bool) -> Iterator[Text]:
    yield from paragraph(console, Text(text.header(run), style="bold"))
    if run.cells:
        yield from sweep_console.sweep_lines(run, console, verbose)
    yield from gate_console.gate_lines(run, console, verbose)
    yield from _table(run, console, verbose)
    yield from _findings(run, console, verbose)
    yield from _untold(run, console)
    yield Text()
    yield from _guarantees(run, console)
    yield from gate_console.failing_lines(run, console)
    yield from _verdict(run, console)
    yield from _next(run, console)


def _quiet(run: Run, console: Console) -> Iterator[Text]:
    for check in run.checks:
        if text.outcome_word(check) in (Outcome.FAILED, Outcome.ERROR):
            told = Text(f"{check.outcome} ", style=_style(run, check))
            yield from paragraph(console, told.append(text.title(check), style="default"))
    yield from gate_console.failing_lines(run, console)
    yield from _verdict(run, console)


def _guarantees(run: Run, console: Console) -> Iterator[Text]:
    """One line for each of the sentences that the verdict consists of, one for what was not
    asked."""
    asked = [one for one in run.guarantees if one.standing is not Standing.NOT_ASKED]
    width = max((len(one.name) for one in asked), default=0) + 2
    for one in asked:
        style = ACCEPTED if one.accepted else _STANDINGS[one.standing]
        head = Text(one.name.ljust(width), style="bold")
        yield from hanging(console, head, Text(text.guarantee_line(one), style=style), width)
    for line in text.unasked(run):
        yield from paragraph(console, Text(line, style="dim"))
    if run.guarantees:
        yield Text()


def _table(run: Run, console: Console, verbose: bool) -> Iterator[Text]:
    names = max((Text(text.title(check)).cell_len for check in run.checks), default=0)
    saw_at = _NAME_AT + names + 2
    room = console.width - saw_at
    for family, checks in text.by_family(run.checks).items():
        yield Text()
        yield Text(family, style="bold")
        for check in checks:
            name = _name(run, check)
            saw = _saw(check, verbose)
            if room < SAW_ROOM:
                yield from hanging(console, name[:_NAME_AT], name[_NAME_AT:], _NAME_AT)
                yield from paragraph(console, saw, _NAME_AT) if verbose and saw else ()
            elif verbose:
                yield from hanging(console, name, saw, saw_at)
            else:
                short = shorten(saw.plain, room, ellipsis_for(console))
                yield from hanging(console, name, Text(short), saw_at)


def _name(run: Run, check: CheckResult) -> Text:
    row = Text(" " * OUTCOME_AT).append(text.outcome_word(check), style=_style(run, check))
    row.pad_right(_NAME_AT - row.cell_len)
    return row.append(text.title(check), style="dim" if check.outcome is Outcome.SKIPPED else "")


def _saw(check: CheckResult, verbose: bool) -> Text:
    """What the check saw; of those that did not fail only with ``verbose``."""
    loud = check.outcome in (Outcome.FAILED, Outcome.ERROR)
    if not (loud or verbose):
        return Text()
    warns = text.outcome_word(check) == Outcome.FAILED and check.severity is Severity.WARNING
    return Text(("warning: " if warns else "") + text.saw(check), style="" if loud else "dim")


def _style(run: Run, check: CheckResult) -> str:
    if check.accepted:
        return ACCEPTED
    light = check.outcome is Outcome.FAILED and not fails(check, strict=run.strict)
    return WARNING if light else _STYLES[check.outcome]


def _findings(run: Run, console: Console, verbose: bool) -> Iterator[Text]:
    """The findings; those that are accepted only with ``verbose``."""
    shown: set[Source] = set()
    told = [check for check in run.checks if verbose or not check.accepted]
    for check in told:
        yield from _findings_of(check, console, _style(run, check), shown)


def _findings_of(
    check: CheckResult, console: Console, style: str, shown: set[Source]
) -> Iterator[Text]:
    """The findings of one check; the source of each is shown once."""
    for number, finding in enumerate(check.findings, 1):
        yield Text()
        yield from paragraph(console, _heading(check, finding, number, style))
        yield from paragraph(console, Text(text.clean(finding.message)), OUTCOME_AT)
        yield from _facts(finding, console)
        if finding.source and finding.source not in shown:
            shown.add(finding.source)
            yield from frame(console, finding.source)


def _heading(check: CheckResult, finding: Finding, number: int, style: str) -> Text:
    count = f", {number} of {len(check.findings)}" if len(check.findings) > 1 else ""
    return Text.assemble(
        (text.title(check), style),
        (f"  {check.severity}, {finding.stage}{count}", "dim"),
    )


def _facts(finding: Finding, console: Console) -> Iterator[Text]:
    for label, value in text.facts(finding):
        head = Text(" " * OUTCOME_AT).append(label, style="dim")
        content = Text(value, style="bold" if label == "fix" else "")
        yield from hanging(console, head, content, VALUE_AT)


def _untold(run: Run, console: Console) -> Iterator[Text]:
    """What was not verified and why, and the notices."""
    for outcome in (Outcome.ERROR, *text.UNANSWERED):
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


def _verdict(run: Run, console: Console) -> Iterator[Text]:
    style = {ExitCode.VERIFIED: "bold green", ExitCode.FAILED: "bold red"}
    told = Text(text.verdict_sentence(run), style=style.get(run.exit_code, "bold yellow"))
    yield from paragraph(console, told)


def _next(run: Run, console: Console) -> Iterator[Text]:
    if step := text.next_step(run):
        yield from paragraph(console, Text(f"next: {step}"))
