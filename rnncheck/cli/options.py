"""The arguments and options that several commands share, declared once, and what a shell completes
behind them.

A shell asks at each press of the tab key, so that nothing here imports torch; what cannot be read
completes to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from rnncheck.results.model import Stage


def complete_codes(incomplete: str) -> list[tuple[str, str]]:
    """Families and checks, with what each finds."""
    from rnncheck.checks.catalogue import entries
    from rnncheck.results.families import FAMILIES

    known = [(family.prefix, family.about) for family in FAMILIES]
    known += [(entry.code, entry.name) for entry in entries()]
    return [(code, told) for code, told in known if code.startswith(incomplete.upper())]


def complete_listed_codes(incomplete: str) -> list[tuple[str, str]]:
    """The same behind what is listed already."""
    listed, comma, begun = incomplete.rpartition(",")
    return [(listed + comma + code, told) for code, told in complete_codes(begun)]


def listed_codes(given: list[str] | None) -> list[str] | None:
    """Each of the codes that an option was given, one by one or separated by commas."""
    return given and [code.strip() for one in given for code in one.split(",")]


def complete_faults(incomplete: str) -> list[str]:
    """Planted faults by their files."""
    import rnncheck

    folder = Path(rnncheck.__file__).parent / "faults"
    files = [file for file in folder.glob("*.py") if "\nFAULT = " in file.read_text("utf-8")]
    names = sorted(file.stem.replace("_", "-") for file in files)
    return [name for name in names if name.startswith(incomplete)]


def complete_formats(incomplete: str) -> list[str]:
    """Report formats."""
    from rnncheck.report.formats import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


def complete_set_keys(incomplete: str) -> list[str]:
    """Keys of the spec that is found here, and of its settings."""
    from rnncheck.spec.shape import SETTINGS

    settings = [f"{name}.{key}" for name, model in SETTINGS.items() for key in model.model_fields]
    known = dict.fromkeys([*_keys_here(), "name", "seed", "device", *settings])
    return [f"{key}=" for key in known if key.startswith(incomplete)]


def _keys_here() -> list[str]:
    from rnncheck.errors import UserError
    from rnncheck.spec.discover import discover
    from rnncheck.spec.read import parse

    try:
        file = discover(Path())
        return list(_leaves(parse(file.read_text("utf-8"), str(file))[0].data, ""))
    except (UserError, OSError, ValueError):
        return []


def _leaves(value: Any, path: str) -> Iterator[str]:
    """The dotted paths of all values that are no mapping and no list."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        yield path
    for key, inner in items:
        yield from _leaves(inner, f"{path}.{key}" if path else str(key))


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
        autocompletion=complete_set_keys,
        help="Change one value of the spec, e.g. policy.modules.1.hidden_size=32. Repeatable.",
        show_default=False,
    ),
]
ReportOption = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        metavar="FORMAT[=PATH]",
        autocompletion=complete_formats,
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
        metavar="CODE-PREFIX,...",
        autocompletion=complete_listed_codes,
        callback=listed_codes,
        help="Run only these checks, e.g. BD,EQ201. Repeatable.",
        show_default=False,
    ),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="CODE-PREFIX,...",
        autocompletion=complete_listed_codes,
        callback=listed_codes,
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
            "Leave the expensive checks out, give the others 10 s, and repair nothing. Says what it"
            " left out; no guarantee that rests on it is shown."
        ),
    ),
]
FixOption = Annotated[
    bool,
    typer.Option(
        "--fix",
        help=(
            "Show a patch of the spec or of your factories, where one is known with which the whole"
            " run was seen green."
        ),
    ),
]
WriteOption = Annotated[
    bool, typer.Option("--write", help="With --fix: write the patch into the files.")
]
RepairOption = Annotated[
    bool,
    typer.Option(
        "--repair/--no-repair",
        help="Where a check failed, repair its cause in a second build and see what follows.",
    ),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Warnings fail too.")]
CasesOption = Annotated[
    float,
    typer.Option(
        "--cases",
        min=0.0,
        max=86_400.0,
        metavar="SECONDS",
        envvar="RNNCHECK_CASES",
        help=(
            "Store a case of each cause for `rnncheck replay`, of a spec the smallest, and search"
            " for it so long; 0 stores none."
        ),
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print the verdict and what failed, nothing else.")
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print what every check compared.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
