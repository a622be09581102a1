"""``rnncheck verify``: build the pipeline of a spec, run it on real data, give a verdict."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from rnncheck.cli.options import (
    BackendsOption,
    IgnoreOption,
    QuietOption,
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

if TYPE_CHECKING:
    from rnncheck.report.formats import Target
    from rnncheck.results.events import Event
    from rnncheck.results.model import Run


def verify(
    spec: SpecPath = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    stage: StageOption = None,
    backends: BackendsOption = None,
    set_: SetOption = None,
    report: ReportOption = None,
    thorough: ThoroughOption = False,
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
        return verify_events(loaded, rules, thorough=thorough, strict=strict or wanted.strict)

    run = follow(events, outputs.targets, quiet=quiet, verbose=verbose)
    outputs.conclude(run)
    raise typer.Exit(run.exit_code)


def follow(
    events: Callable[[], Iterator[Event]],
    targets: Sequence[Target],
    *,
    quiet: bool,
    verbose: bool,
) -> Run:
    """Feed every event to the listeners until the run ends or is interrupted."""
    from rnncheck.report.formats import live_writers
    from rnncheck.report.progress import ConsoleProgress
    from rnncheck.report.terminal import console_for
    from rnncheck.results.collect import RunCollector
    from rnncheck.results.events import RunFinished

    begin, interrupted = time.perf_counter(), False
    collector = RunCollector()
    with ConsoleProgress(console_for(sys.stderr), quiet, verbose) as progress:
        listeners: list[Callable[[Event], None]] = [
            collector,
            progress,
            *live_writers(targets, sys.stdout),
        ]
        stream: Iterator[Event] | None = None
        try:
            stream = events()
            for event in stream:
                for listener in listeners:
                    listener(event)
        except KeyboardInterrupt:
            interrupted = True
            close_stream(stream)
        run = collector.finish(interrupted, time.perf_counter() - begin)
        for listener in listeners:
            listener(RunFinished(run))
    return run


def close_stream(stream: object) -> None:
    """Close a generator, and with it the pipeline."""
    ending = getattr(stream, "close", None)
    if ending is not None:
        ending()
