"""The arguments and options that several commands share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rnncheck.results.model import Stage

SpecPath = Annotated[
    Path | None,
    typer.Argument(
        metavar="SPEC",
        help="The spec file. Without it, rnncheck.yaml in this folder or above.",
        show_default=False,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one value of the spec, e.g. policy.modules.1.hidden_size=32. Repeatable.",
        show_default=False,
    ),
]
ReportOption = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        metavar="FORMAT[=PATH]",
        help=(
            "Write a report: console, json, jsonl, junit, github, sarif, markdown, csv, html or"
            " benchmark. Repeatable."
        ),
        show_default=False,
    ),
]
SelectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        metavar="CODE-PREFIX",
        help="Run only these checks, e.g. BD or EQ201. Repeatable.",
        show_default=False,
    ),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="CODE-PREFIX",
        help="Leave these checks out. Repeatable.",
        show_default=False,
    ),
]
StageOption = Annotated[
    list[Stage] | None,
    typer.Option("--stage", help="Run only the checks of this stage. Repeatable."),
]
BackendsOption = Annotated[
    str | None,
    typer.Option(
        "--backends",
        metavar="all|pad,scan,...",
        help="Prove these recurrent backends equal (EQ207, EQ208), e.g. pad,scan-recompute,triton.",
        show_default=False,
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        max=2**31 - 1,
        metavar="N",
        help="The seed, instead of the spec's.",
        show_default=False,
    ),
]
ThoroughOption = Annotated[
    bool, typer.Option("--thorough", help="Check more cases; takes longer and says how long.")
]
FastOption = Annotated[
    bool,
    typer.Option(
        "--fast",
        help=(
            "Leave the dear checks out, give the others 10 s, and repair nothing. Says what it left"
            " out; no guarantee that rests on it is shown."
        ),
    ),
]
RepairOption = Annotated[
    bool,
    typer.Option(
        "--repair/--no-repair",
        help="Where a check failed, repair its cause in a second build and see what follows.",
    ),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Warnings fail too.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print the verdict and what failed, nothing else.")
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print what every check compared.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
