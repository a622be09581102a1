"""``rnncheck gate``: the step of a CI job. Checks, budgets, a baseline and another side give one
verdict."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rnncheck.cli.options import (
    CasesOption,
    IgnoreOption,
    QuietOption,
    ReportOption,
    SeedOption,
    SelectOption,
    SetOption,
    SpecPath,
    StageOption,
    ThoroughOption,
    VerboseOption,
)
from rnncheck.errors import OutputError
from rnncheck.printable import clean
from rnncheck.results.exit_codes import ExitCode

if TYPE_CHECKING:
    from rnncheck.checks.rule import Rule
    from rnncheck.gate.baseline import Baseline
    from rnncheck.results.events import Event
    from rnncheck.results.model import Run, Stage
    from rnncheck.spec.model import Spec

BaselineOption = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="Compare with this stored result, which you commit.",
        show_default=False,
    ),
]
UpdateOption = Annotated[
    bool,
    typer.Option("--update-baseline", help="Write the baseline anew and say what changed."),
]
AgainstOption = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="PYTHON",
        help="Compare with another interpreter or virtual environment, in turn, here and now.",
        show_default=False,
    ),
]
RefOption = Annotated[
    str | None,
    typer.Option(
        "--against-ref",
        metavar="GITREF",
        help="Compare with another revision of this repository, e.g. origin/main.",
        show_default=False,
    ),
]
SlowdownOption = Annotated[
    str | None,
    typer.Option(
        "--max-slowdown",
        metavar="SHARE",
        help="How much slower is allowed: 3% or 0.03. Without it the spec's gate.max_slowdown.",
        show_default=False,
    ),
]
NoVerifyOption = Annotated[
    bool, typer.Option("--no-verify", help="Judge the speed alone; the report says so.")
]
GateStrictOption = Annotated[
    bool, typer.Option("--strict", help="Warnings fail too, and so does what is unclear.")
]


def gate(
    spec: SpecPath = None,
    baseline: BaselineOption = None,
    update_baseline: UpdateOption = False,
    against: AgainstOption = None,
    against_ref: RefOption = None,
    max_slowdown: SlowdownOption = None,
    no_verify: NoVerifyOption = False,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    stage: StageOption = None,
    set_: SetOption = None,
    report: ReportOption = None,
    thorough: ThoroughOption = False,
    cases: CasesOption = 10.0,
    seed: SeedOption = None,
    strict: GateStrictOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Verify, hold the spec's budgets, compare with a baseline or another side: one verdict for CI.

    It imports your factories, so it runs your Python.
    """
    from rnncheck.cli.outputs import Outputs
    from rnncheck.cli.verify import blank_run, follow
    from rnncheck.spec.load import open_spec

    partial = no_verify or bool(select or ignore or stage)
    _check_together(
        baseline, update=update_baseline, partial=partial, against=against, ref=against_ref
    )
    overrides = [*(set_ or []), *([] if seed is None else [f"seed={seed}"])]
    loaded = open_spec(spec, overrides)
    allowed = loaded.gate.max_slowdown if max_slowdown is None else parse_share(max_slowdown)
    before = None if baseline is None else _opened(baseline, loaded, update=update_baseline)
    file = None if baseline is None else baseline.absolute()
    outputs = Outputs.prepared(loaded, report, quiet=quiet, verbose=verbose)

    def events() -> Iterator[Event]:
        from rnncheck.exhibits.collect import Illustration
        from rnncheck.gate.session import Gate, GateRequest

        rules, left_out = _selected(loaded, select, ignore, stage)
        asked = GateRequest(
            rules=None if no_verify else rules, left_out=left_out, overrides=overrides,
            strict=strict or loaded.verify.strict, thorough=thorough, baseline=before,
            update=update_baseline, python=against, ref=against_ref, allowed=allowed,
            illustrate=Illustration(outputs.draws),
        )  # fmt: skip
        found = Gate(loaded, asked).events()
        if no_verify or not cases:
            return found
        from rnncheck.cases.keep import Keeping

        keeping = Keeping(loaded, rules, tuple(overrides), thorough, asked.strict, cases)
        return keeping.events(found)

    blank = blank_run("gate", loaded)
    run = follow(events, outputs.targets, blank, quiet=quiet, verbose=verbose)
    outputs.conclude(run)
    if file is not None and update_baseline and not _write_baseline(run, file):
        raise typer.Exit(run.exit_code or ExitCode.USAGE)
    raise typer.Exit(run.exit_code)


def _check_together(
    baseline: Path | None, *, update: bool, partial: bool, against: str | None, ref: str | None
) -> None:
    from rnncheck.errors import UserError

    if update and baseline is None:
        raise UserError(
            "--update-baseline names no file", hint="--baseline FILE says which one is written"
        )
    if update and partial:
        raise UserError(
            "--update-baseline writes every verdict: it goes with none of "
            "--no-verify, --select, --ignore and --stage",
            hint="what shall never be asked is left out in the spec: verify.ignore",
        )
    if against is not None and ref is not None:
        raise UserError("--against and --against-ref name two other sides", accepted="one of them")


def parse_share(text: str) -> float:
    """``3%`` or ``0.03``. Raises UserError."""
    from rnncheck.errors import UserError

    number, percent = text.strip(), 1.0
    if number.endswith("%"):
        number, percent = number[:-1], 100.0
    try:
        share = float(number) / percent
    except ValueError:
        share = math.nan
    if not 0 <= share < 1:
        accepted = "a share from 0 to below 1, e.g. 3% or 0.03"
        raise UserError(f"--max-slowdown {text}: this is no share", accepted=accepted)
    return share


def _opened(path: Path, spec: Spec, *, update: bool) -> Baseline | None:
    """What is compared with; None where the file is yet to be written. Raises UserError."""
    from rnncheck.gate.baseline import open_baseline
    from rnncheck.results.files import check_writable

    baseline = open_baseline(path, spec, update=update)
    if update:
        check_writable(path)
    return baseline


def _selected(
    spec: Spec, select: list[str] | None, ignore: list[str] | None, stage: list[Stage] | None
) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """The rules to run, and the codes that the spec asks for and the command line leaves out."""
    from rnncheck.checks.engine.select import select_rules

    wanted = spec.verify
    rules = select_rules(
        spec, select or wanted.select, [*wanted.ignore, *(ignore or [])], tuple(stage or ())
    )
    kept = {rule.code for rule in rules}
    asked = select_rules(spec, wanted.select, wanted.ignore)
    return rules, tuple(rule.code for rule in asked if rule.code not in kept)


def _write_baseline(run: Run, path: Path) -> bool:
    """Write the baseline, but for a run that was interrupted; False where it cannot be written."""
    from rnncheck.gate.baseline import baseline_of
    from rnncheck.results.store import write_run

    if run.exit_code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED):
        print(clean(f"interrupted: {path} stays as it was"), file=sys.stderr)
        return True
    try:
        write_run(baseline_of(run), path)
    except OutputError as error:
        print(f"error: the baseline is not written: {error}", file=sys.stderr)
        return False
    print(clean(f"baseline written to {path}: commit it"), file=sys.stderr)
    return True
