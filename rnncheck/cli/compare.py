"""``rnncheck compare A B``: two stored results, row by row."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rnncheck.cli.options import JsonOption

ResultPath = Annotated[
    Path, typer.Argument(metavar="RESULT", help="A stored result, or a folder with a .rnncheck.")
]
AllowedOption = Annotated[
    float,
    typer.Option("--allowed", min=0.0, max=1.0, help="A change within this share counts as none."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Show rows that did not change, too.")]


def compare(
    first: ResultPath,
    second: ResultPath,
    allowed: AllowedOption = 0.03,  # as results.compare.ALLOWED, which is imported when used
    all_: AllOption = False,
    json: JsonOption = False,
) -> None:
    """Compare two stored results: checks that newly fail, cells that are faster, slower, new or
    gone.

    It never fails because of what it finds; `rnncheck gate` does.
    """
    from rnncheck.report.comparison import as_json, show_comparison
    from rnncheck.report.terminal import console_for
    from rnncheck.results.compare import compare_runs
    from rnncheck.results.store import find_latest, read_run

    runs = [read_run(path if not path.is_dir() else find_latest(path)) for path in (first, second)]
    changes = compare_runs(runs[0], runs[1], allowed)
    if json:
        sys.stdout.write(as_json(changes))
    else:
        show_comparison(runs[0], runs[1], changes, console_for(sys.stdout), everything=all_)
