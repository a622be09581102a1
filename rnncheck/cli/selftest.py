"""``rnncheck selftest``: plant faults into the user's own pipeline and show which check catches
each."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rnncheck.cli.options import (
    QuietOption,
    SeedOption,
    SetOption,
    SpecPath,
    VerboseOption,
    complete_faults,
)
from rnncheck.errors import OutputError
from rnncheck.printable import clean, json_text
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.planting import Attempt, Ending, Selftest

if TYPE_CHECKING:
    from rich.console import Console

    from rnncheck.faults.fault import Fault
    from rnncheck.results.model import Run
    from rnncheck.spec.model import Spec

_FORMAT = 1  # version of the JSON report
_FORMATS = ("json", "html")
_STYLES = {
    Ending.CAUGHT: "green",
    Ending.MISSED: "bold red",
    Ending.CANNOT_APPLY: "dim",
    Ending.ENDED: "bold red",
}


@dataclass
class SelftestState:
    """What a self-test found, at any moment."""

    spec: Spec
    healthy: Run | None = None
    attempts: list[Attempt] = field(default_factory=list)
    seconds: float = 0.0
    stopped: ExitCode | None = None  # by Ctrl-C or SIGTERM

    def found(self) -> Selftest:
        """All of it."""
        return Selftest(self.healthy, tuple(self.attempts), self.seconds, self.exit_code)

    @property
    def exit_code(self) -> ExitCode:
        """1 where a fault was missed or the pipeline is sick, 3 where one ended its process, 4
        where nothing was looked at."""
        endings = {attempt.ending for attempt in self.attempts}
        health = ExitCode.VERIFIED if self.healthy is None else self.healthy.exit_code
        if self.stopped is not None:
            return self.stopped
        if health in (ExitCode.NOT_SHOWN, ExitCode.INTERNAL):
            return health
        if health is not ExitCode.VERIFIED or Ending.MISSED in endings:
            return ExitCode.FAILED
        if Ending.ENDED in endings:
            return ExitCode.INTERNAL
        return ExitCode.VERIFIED if Ending.CAUGHT in endings else ExitCode.NOT_SHOWN


def selftest(
    spec: SpecPath = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            "--fault",
            metavar="NAME",
            autocompletion=complete_faults,
            help="Plant only the faults whose name begins with this. Repeatable.",
            show_default=False,
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Name the faults and what each expects; plant none.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all-checks", help="Ask every check about each fault; takes longer.")
    ] = False,
    set_: SetOption = None,
    report: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            metavar="json|html[=PATH]",
            help="Write the result as JSON or HTML, to standard output or a file. Repeatable.",
            show_default=False,
        ),
    ] = None,
    seed: SeedOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Plant faults into your pipeline, one at a time, and show which check catches each.

    The pipeline as it is must be healthy. Exit 1 if a fault that applies is missed.
    """
    from rnncheck.report.terminal import console_for
    from rnncheck.spec.load import open_spec

    targets = _targets(report or ())
    if list_:
        _print_faults(console_for(sys.stdout), fault or ())
        return
    loaded = open_spec(spec, [*(set_ or []), *([] if seed is None else [f"seed={seed}"])])
    outcome = _run(loaded, fault or (), quiet=quiet, verbose=verbose, every=every)
    if all(path is not None for path in targets.values()):
        _show(outcome, console_for(sys.stdout), quiet=quiet, verbose=verbose)
    for name, path in targets.items():
        _write(outcome, name, path)
    raise typer.Exit(outcome.exit_code)


def _targets(reports: Sequence[str]) -> dict[str, Path | None]:
    """The file of each format that is asked for; None for standard output."""
    from rnncheck.results.files import check_writable

    found: dict[str, Path | None] = {}
    for report in reports:
        name, _, path = report.partition("=")
        if name not in _FORMATS:
            accepted = ", ".join(f"{one}, {one}=PATH" for one in _FORMATS)
            raise OutputError(f"selftest has no report format {name!r}", accepted=accepted)
        found[name] = None if path in ("", "-") else Path(path).absolute()
    if list(found.values()).count(None) > 1:
        said = f"{' and '.join(found)} would mix on standard output"
        raise OutputError(said, hint="give one of them a file: --report html=FILE")
    for target in filter(None, found.values()):
        check_writable(target)
    return found


def _print_faults(console: Console, names: Sequence[str]) -> None:
    from rnncheck.faults.registry import select_faults

    for fault in select_faults(names):
        console.print(f"{fault.name}  ({fault.stage}; {', '.join(fault.expects)})")
        console.print(f"    {fault.summary}", style="dim")


def _run(
    spec: Spec, names: Sequence[str], *, quiet: bool, verbose: bool, every: bool
) -> SelftestState:
    """The healthy run, then each fault, until the end or an interruption."""
    from rnncheck.faults.registry import select_faults
    from rnncheck.report.terminal import console_for
    from rnncheck.supervisor.signals import CommandStopped, stopping

    begin, outcome, console = time.perf_counter(), SelftestState(spec), console_for(sys.stderr)
    chosen: Sequence[Fault] = select_faults(names)
    try:
        with stopping():
            _fill(outcome, chosen, console, quiet=quiet, verbose=verbose, every=every)
    except (KeyboardInterrupt, CommandStopped) as error:
        outcome.stopped = ExitCode(getattr(error, "code", ExitCode.INTERRUPTED))
    outcome.seconds = time.perf_counter() - begin
    return outcome


def _fill(
    outcome: SelftestState,
    chosen: Sequence[Fault],
    console: Console,
    *,
    quiet: bool,
    verbose: bool,
    every: bool,
) -> None:
    from rnncheck.cli.planting import look_at_health, planted
    from rnncheck.report.selftest import attempt_verdict

    if not quiet:
        console.print("the pipeline as it is ...", style="dim")
    outcome.healthy = look_at_health(outcome.spec)
    sick = outcome.found().sick
    pending = () if sick else planted(outcome.spec, chosen, outcome.healthy, every=every)
    for number, attempt in enumerate(pending, 1):
        outcome.attempts.append(attempt)
        if not quiet:
            told = f"{number}/{len(chosen)} {attempt.fault}: {attempt_verdict(attempt)}"
            console.print(f"{told} ({attempt.seconds:.1f} s)" if verbose else told, style="dim")


def _show(outcome: SelftestState, console: Console, *, quiet: bool, verbose: bool) -> None:
    if outcome.found().sick:
        _show_sick(outcome, console)
    elif outcome.attempts and not quiet:
        _show_table(outcome, console, verbose)
    elif quiet:
        for attempt in outcome.attempts:
            if attempt.ending is Ending.MISSED:
                console.print(f"missed {attempt.fault}: {attempt.summary}")
    console.print(_summary(outcome))


def _show_sick(outcome: SelftestState, console: Console) -> None:
    from rnncheck.report.console import show_run
    from rnncheck.report.selftest import health_sentence
    from rnncheck.report.text import unchecked

    if outcome.healthy is None:
        return
    console.print(health_sentence(outcome.found()))
    if outcome.found().unseen:
        console.print(unchecked(outcome.healthy))
    show_run(outcome.healthy, console, quiet=True)


def _show_table(outcome: SelftestState, console: Console, verbose: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from rnncheck.report.selftest import attempt_verdict

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("stage", "fault", "outcome"):
        table.add_column(column, overflow="fold")
    for attempt in outcome.attempts:
        style = _STYLES[attempt.ending]
        table.add_row(attempt.stage, attempt.fault, Text(attempt_verdict(attempt), style=style))
        if attempt.ending is Ending.MISSED or verbose:
            table.add_row("", "", Text(attempt.summary, style="dim"))
        if attempt.ending is Ending.MISSED and attempt.reason:
            table.add_row("", "", Text(clean(attempt.reason), style="dim"))
    console.print(table)
    console.print()


def _summary(outcome: SelftestState) -> str:
    from rnncheck.report.selftest import counted_endings

    told = counted_endings(outcome.found())
    return f"{told}; {outcome.seconds:.1f} s; exit {int(outcome.exit_code)}"


def _write(outcome: SelftestState, name: str, path: Path | None) -> None:
    from rnncheck.report.selftest import render_selftest
    from rnncheck.results.files import write_atomic

    if name == "html":
        text = render_selftest(outcome.found())
    else:
        text = json_text(_as_json(outcome), indent=2) + "\n"
    if path is None:
        sys.stdout.write(text)
        return
    try:
        write_atomic(path, text)
    except OutputError as error:  # the verdict stands, and its exit code
        print(f"error: the {name} report is not written: {error}", file=sys.stderr)


def _as_json(outcome: SelftestState) -> dict[str, Any]:
    from rnncheck import __version__
    from rnncheck.results.encode import run_to_json
    from rnncheck.results.plain import plain_value

    spec = outcome.spec
    return {
        "format": _FORMAT,
        "tool": {"name": "rnncheck", "version": __version__},
        "command": "selftest",
        "spec": {"path": spec.path, "name": spec.name, "hash": spec.hash},
        "seed": spec.seed,
        "seconds": outcome.seconds,
        "exit_code": int(outcome.exit_code),
        "interrupted": outcome.stopped is not None,
        "healthy": None if outcome.healthy is None else run_to_json(outcome.healthy),
        "faults": [plain_value(attempt) for attempt in outcome.attempts],
    }
