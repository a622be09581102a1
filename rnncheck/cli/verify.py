"""``rnncheck verify``: build the pipeline of a spec, run it on real data, give a verdict."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from rnncheck.cli.options import (
    BackendsOption,
    CasesOption,
    FastOption,
    IgnoreOption,
    QuietOption,
    RepairOption,
    ReportOption,
    SeedOption,
    SelectOption,
    SetOption,
    SpecPath,
    StageOption,
    StrictOption,
    ThoroughOption,
    VerboseOption,
)
from rnncheck.results.exit_codes import ExitCode

if TYPE_CHECKING:
    from rnncheck.report.formats import Target
    from rnncheck.results.events import Event, RunStarted
    from rnncheck.results.model import Run
    from rnncheck.spec.model import Spec


def verify(
    spec: SpecPath = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    stage: StageOption = None,
    backends: BackendsOption = None,
    set_: SetOption = None,
    report: ReportOption = None,
    fast: FastOption = False,
    thorough: ThoroughOption = False,
    repair: RepairOption = True,
    cases: CasesOption = 10.0,
    seed: SeedOption = None,
    strict: StrictOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Run the checks on the pipeline that a spec describes.

    Loading a spec runs no code; building it imports your factories, so it runs your Python.
    """
    from rnncheck.cli.outputs import Outputs
    from rnncheck.spec.load import open_spec

    overrides = [*(set_ or []), *([] if seed is None else [f"seed={seed}"])]
    overrides += [] if backends is None else [f"verify.backends=[{backends}]"]
    loaded = open_spec(spec, overrides)
    outputs = Outputs.prepared(loaded, report, quiet=quiet, verbose=verbose)

    def events() -> Iterator[Event]:
        from rnncheck.checks.engine.select import select_rules
        from rnncheck.checks.engine.session import verify_events

        wanted = loaded.verify
        rules = select_rules(
            loaded, select or wanted.select, [*wanted.ignore, *(ignore or [])], stage or ()
        )
        failing = strict or wanted.strict
        found = verify_events(
            loaded, rules, thorough=thorough, strict=failing, repair=repair, fast=fast
        )
        if fast or not cases:
            return found
        from rnncheck.cases.keep import Keeping

        keeping = Keeping(loaded, rules, tuple(overrides), thorough, failing, cases)
        return keeping.events(found)

    blank = blank_run("verify", loaded)
    run = follow(events, outputs.targets, blank, quiet=quiet, verbose=verbose)
    outputs.conclude(run)
    raise typer.Exit(run.exit_code)


def blank_run(command: str, spec: Spec) -> RunStarted:
    """What is known of a run before anything of it has run."""
    from rnncheck.results.collect import unstarted
    from rnncheck.results.model import SpecRef

    return unstarted(command, SpecRef(spec.path, spec.name, spec.hash), spec.seed, spec.device)


def follow(
    events: Callable[[], Iterator[Event]],
    targets: Sequence[Target],
    blank: RunStarted,
    *,
    quiet: bool,
    verbose: bool,
    prints: bool = False,
) -> Run:
    """Feed every event to the listeners until the run ends, breaks off or is interrupted.

    In a command's own process what makes the events runs in a supervised one; elsewhere it runs
    here. With ``prints`` its standard output is this one's.
    """
    from rnncheck.cli.streams import streamed_events
    from rnncheck.report.formats import live_writers
    from rnncheck.report.progress import ConsoleProgress
    from rnncheck.report.terminal import console_for
    from rnncheck.results.collect import RunCollector
    from rnncheck.results.events import RunFinished
    from rnncheck.supervisor.signals import CommandStopped, stopping

    begin, stop = time.perf_counter(), 0
    collector = RunCollector(blank)
    with ConsoleProgress(console_for(sys.stderr), quiet, verbose) as progress:
        listeners: list[Callable[[Event], None]] = [
            collector,
            progress,
            *live_writers(targets, sys.stdout),
        ]
        try:
            made = streamed_events(events, progress.tick, prints=prints)
            with stopping(), made as stream:
                for event in stream:
                    for listener in listeners:
                        listener(event)
        except (KeyboardInterrupt, CommandStopped) as error:
            stop = getattr(error, "code", ExitCode.INTERRUPTED)
        terminated = stop == ExitCode.TERMINATED
        run = collector.finish(bool(stop), time.perf_counter() - begin, terminated=terminated)
        for listener in listeners:
            listener(RunFinished(run))
    return run
