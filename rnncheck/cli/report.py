"""``rnncheck report``: renders a stored result again. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rnncheck.cli.options import QuietOption, ReportOption, VerboseOption


def report(
    result: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RESULT]",
            help="A stored result, or a folder with a .rnncheck in it or above it. Default: here.",
        ),
    ] = None,
    reports: ReportOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Render a stored result. Exits 0 when it was rendered, whatever its verdict."""
    import sys

    from rnncheck.report.formats import parse_targets, write_reports
    from rnncheck.results.store import find_latest, read_run

    targets = parse_targets(reports or [])
    wanted = result or Path()
    run = read_run(find_latest(wanted) if wanted.is_dir() else wanted)
    write_reports(run, targets, sys.stdout, quiet=quiet, verbose=verbose)
