"""``rnncheck verify``: build the pipeline of a spec, run it on real data, give a verdict."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import typer

from rnncheck.cli.options import (
    BackendsOption,
    CasesOption,
    FastOption,
    FixOption,
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
    WriteOption,
)
from rnncheck.results.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from rnncheck.cli.saved import Asking
    from rnncheck.report.formats import Target
    from rnncheck.results.events import Event, RunStarted
    from rnncheck.results.model import Run
    from rnncheck.spec.model import Spec
    from rnncheck.supervisor.scripts import ScriptEnded


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
    fix: FixOption = False,
    write: WriteOption = False,
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
    from rnncheck.cli.patching import PatchDesk
    from rnncheck.cli.saved import Asking, is_zip, refuse_for_saved, saved_source

    desk = PatchDesk(fix, write)
    proven = () if backends is None else tuple(part.strip() for part in backends.split(","))
    asking = Asking(select, ignore, stage, proven, seed, thorough=thorough, strict=strict)
    if spec is not None and is_zip(spec):
        refuse_for_saved(spec, {"--set": set_, "--fast": fast, "--fix": fix})
        loaded, events = saved_source(spec, asking)
    else:
        overrides = [
            *(set_ or []),
            *([] if backends is None else [f"verify.backends=[{backends}]"]),
        ]
        extras = SpecExtras(repair=repair, fast=fast, fix=fix, cases=cases)
        loaded, events = _spec_source(spec, overrides, asking, extras)
    outputs = Outputs.prepared(loaded, report, quiet=quiet, verbose=verbose)
    blank = blank_run("verify", loaded)
    run = follow(
        partial(events, outputs.draws),
        outputs.targets,
        blank,
        quiet=quiet,
        verbose=verbose,
        also=desk.hear,
    )
    outputs.conclude(run)
    desk.conclude(apart=not outputs.plain)
    raise typer.Exit(run.exit_code)


@dataclass(frozen=True)
class SpecExtras:
    """What can be asked of a spec alone."""

    repair: bool
    fast: bool
    fix: bool
    cases: float  # s; the most that the search for the smallest case may take


def _spec_source(
    path: Path | None, given: Sequence[str], asking: Asking, extras: SpecExtras
) -> tuple[Spec, Callable[[bool], Iterator[Event]]]:
    """The spec, and what makes the events, given whether a report has pictures."""
    from rnncheck.spec.load import open_spec

    overrides = [*given, *([] if asking.seed is None else [f"seed={asking.seed}"])]
    loaded = open_spec(path, overrides)

    def events(draws: bool) -> Iterator[Event]:
        from rnncheck.checks.engine.select import select_rules
        from rnncheck.checks.engine.session import verify_events
        from rnncheck.exhibits.collect import Illustration

        wanted, thorough = loaded.verify, asking.thorough
        ignored = [*wanted.ignore, *(asking.ignore or [])]
        rules = select_rules(loaded, asking.select or wanted.select, ignored, asking.stage or ())
        failing = asking.strict or wanted.strict
        found = verify_events(
            loaded,
            rules,
            thorough=thorough,
            strict=failing,
            repair=extras.repair,
            fast=extras.fast,
            illustrate=Illustration(draws),
        )
        if not extras.fix:
            if extras.fast or not extras.cases:
                return found
            from rnncheck.cases.keep import Keeping

            keeping = Keeping(loaded, rules, tuple(overrides), thorough, failing, extras.cases)
            return keeping.events(found)
        from rnncheck.patch.offer import with_patch

        return with_patch(found, loaded, rules, overrides, strict=failing, thorough=thorough)

    return loaded, events


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
    also: Callable[[Event], None] = lambda _event: None,
    script_ended: ScriptEnded | None = None,
    pipelines: bool = True,
) -> Run:
    """Feed every event to the listeners until the run ends, breaks off or is interrupted.

    In a command's own process what makes the events runs in a supervised one; elsewhere it runs
    here. With ``prints`` its standard output is this one's; until an event is ``script_ended``
    Ctrl-C goes to what runs there first. ``also`` hears all events too. Without ``pipelines``
    nothing is built there.
    """
    from rnncheck.cli.streams import streamed_events
    from rnncheck.report.formats import live_writers
    from rnncheck.report.progress import ConsoleProgress
    from rnncheck.report.terminal import console_for
    from rnncheck.results.collect import RunCollector
    from rnncheck.results.events import Notice, RunFinished
    from rnncheck.supervisor.signals import CommandStopped, stopping

    begin, stop = time.perf_counter(), 0
    collector = RunCollector(blank)
    with ConsoleProgress(console_for(sys.stderr), quiet, verbose) as progress:
        listeners: list[Callable[[Event], None]] = [
            collector,
            progress,
            also,
            *live_writers(targets, sys.stdout),
        ]
        try:
            made = streamed_events(
                events,
                progress.tick,
                prints=prints,
                script_ended=script_ended,
                pipelines=pipelines,
            )
            with stopping(), made as stream:
                for event in stream:
                    for listener in listeners:
                        listener(event)
        except (KeyboardInterrupt, CommandStopped) as error:
            stop = getattr(error, "code", ExitCode.INTERRUPTED)
            if said := getattr(error, "said", ""):
                for listener in listeners:
                    listener(Notice(said))
        terminated = stop == ExitCode.TERMINATED
        run = collector.finish(bool(stop), time.perf_counter() - begin, terminated=terminated)
        for listener in listeners:
            listener(RunFinished(run))
    return run
