"""``rnncheck run``: watch a training script as it is, and judge what it built and trained on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rnncheck.cli.options import (
    BackendsOption,
    CasesOption,
    IgnoreOption,
    QuietOption,
    ReportOption,
    SeedOption,
    SelectOption,
    StageOption,
    StrictOption,
    ThoroughOption,
    VerboseOption,
)

if TYPE_CHECKING:
    from rnncheck.results.events import Event

ScriptArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="SCRIPT [ARGS]...",
        help="The script, or with -m the module, and its own arguments.",
        show_default=False,
    ),
]
ModuleOption = Annotated[
    bool, typer.Option("-m", "--module", help="SCRIPT is the name of a module, as in python -m.")
]
UpdatesOption = Annotated[
    int,
    typer.Option(
        "--updates",
        min=1,
        metavar="N",
        help="So many optimiser steps are enough; the script is then ended.",
    ),
]
SecondsOption = Annotated[
    float,
    typer.Option("--seconds", min=1.0, metavar="S", help="The script is ended after that time."),
]
TimeoutOption = Annotated[
    float,
    typer.Option("--timeout", min=1.0, metavar="S", help="A check is ended after that time."),
]
SaveOption = Annotated[
    Path | None,
    typer.Option(
        "--save",
        metavar="FILE",
        help="Keep what was seen, without pickle; `rnncheck verify FILE` judges it again.",
        show_default=False,
    ),
]
SpecOption = Annotated[
    Path | None,
    typer.Option(
        "--spec",
        metavar="FILE",
        help="Write the spec of what was seen; what it lacks is a TODO there.",
        show_default=False,
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite the file that --spec names.")]
KeepGoingOption = Annotated[
    bool, typer.Option("--keep-going", help="Let the script train on to its end.")
]


def run(
    script: ScriptArgument,
    module: ModuleOption = False,
    updates: UpdatesOption = 3,
    seconds: SecondsOption = 600.0,
    timeout: TimeoutOption = 120.0,
    keep_going: KeepGoingOption = False,
    save: SaveOption = None,
    spec: SpecOption = None,
    force: ForceOption = False,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    stage: StageOption = None,
    backends: BackendsOption = None,
    report: ReportOption = None,
    thorough: ThoroughOption = False,
    cases: CasesOption = 10.0,
    seed: SeedOption = None,
    strict: StrictOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Watch a training script as it is, and judge what it built, collected and trained on.

    It runs your script. Nothing in it need be changed: envs, collectors, buffers, estimators and
    losses are watched where it calls them, and findings name its lines.
    """
    from rnncheck.cli.init import refuse_existing, write_schema
    from rnncheck.cli.outputs import Outputs
    from rnncheck.cli.verify import blank_run, follow
    from rnncheck.results.files import check_writable
    from rnncheck.spec.settings import VerifySpec
    from rnncheck.spec.watched import unseen

    proven = () if backends is None else tuple(part.strip() for part in backends.split(","))
    settings = VerifySpec(backends=proven, strict=strict, timeout=timeout)
    asked = unseen(script[0], seed or 0, settings, script[1:])
    outputs = Outputs.prepared(asked, report, quiet=quiet, verbose=verbose)
    kept = None if save is None else save.absolute()  # a script may change the folder
    written = None if spec is None else spec.absolute()
    if kept is not None:
        check_writable(kept)
    if written is not None:
        refuse_existing(written, force)

    def events() -> Iterator[Event]:
        from rnncheck.checks.engine.select import select_rules
        from rnncheck.exhibits.collect import Illustration
        from rnncheck.watching.events import RunLimits, watched_events
        from rnncheck.watching.script import Script

        what = Script(script[0], tuple(script[1:]), module)
        limits = RunLimits(updates, seconds, keep_going, kept, written)
        rules = select_rules(asked, select or [], ignore or [], stage or ())
        behind = None
        if cases:
            from rnncheck.cases.scripts import ScriptKeeping

            keeping = ScriptKeeping(what, asked, rules, limits, thorough, strict)
            behind = keeping.events
        return watched_events(
            what,
            asked,
            rules,
            limits,
            thorough=thorough,
            strict=strict,
            illustrate=Illustration(outputs.draws),
            behind=behind,
        )

    # what a machine reads on standard output has it to itself
    piped = any(one.path is None and one.format != "console" for one in outputs.targets)
    made = follow(
        events,
        outputs.targets,
        blank_run("run", asked),
        quiet=quiet,
        verbose=verbose,
        prints=not piped,
        script_ended=_script_ended,
    )
    if written is not None and written.exists():
        write_schema(written.parent)
    outputs.conclude(made)
    raise typer.Exit(made.exit_code)


def _script_ended(event: Event) -> bool:
    """What comes behind it is no longer the script's."""
    from rnncheck.results.events import StageFinished

    return isinstance(event, StageFinished)
