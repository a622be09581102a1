"""``rnncheck doctor``: what can run on this machine, and why the rest cannot."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from rnncheck.pipeline.backends.overview import Combination, ProcessPrecision
    from rnncheck.pipeline.doctor import Capability, Diagnosis, Package

_Row = tuple[str, ...]


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Show versions, devices, and which environments and backends can run here."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame complains without a display
    from rnncheck.pipeline.doctor import diagnose

    found = diagnose()
    if as_json:
        typer.echo(_json(found))
        return
    from rich.console import Console

    _print(found, Console(highlight=False))


def _json(found: Diagnosis) -> str:
    import dataclasses

    from rnncheck.printable import json_text

    return json_text(dataclasses.asdict(found), indent=2)


def _print(found: Diagnosis, console: Console) -> None:
    console.print(f"rnncheck {found.version} · Python {found.python} · {found.platform}")
    console.print(f"torch build: {found.torch_build} · {found.threads} threads\n")
    _table(console, "Required", map(_required, found.packages))
    _table(console, "Optional", map(_optional, found.optional))
    _table(console, "Devices", ((device.name, device.detail) for device in found.devices))
    _table(console, "Environments", map(_tried, found.environments))
    _table(console, "Collector", [_tried(found.collector)])
    _table(console, "Recurrent backends", map(_tried, found.backends))
    _table(console, "Recurrent layers in fewer bits, on the CPU", map(_tried, found.narrow))
    for device in dict.fromkeys(one.device for one in found.combinations):
        _combinations(console, [one for one in found.combinations if one.device == device])
    _table(console, "Precision of recurrent products", _precision(found.precision))
    for warning in found.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False)


def _combinations(console: Console, found: list[Combination]) -> None:
    """A grid of options and backends; what cannot run, or has no effect, has the number of its
    reason below."""
    from rich.table import Table

    reasons = list(dict.fromkeys(one.reason for one in found if one.reason))
    cells = {(one.option, one.backend): _cell(one, reasons) for one in found}
    backends = list(dict.fromkeys(backend for _, backend in cells))
    grid = Table(box=None, padding=(0, 2, 0, 2), header_style="")
    for title in ("", *backends):
        grid.add_column(title)
    for option in dict.fromkeys(option for option, _ in cells):
        grid.add_row(option, *(cells[option, backend] for backend in backends))
    console.print(f"Combinations on {found[0].device}", style="bold")
    console.print(grid)
    _table(console, "", ((str(number), reason) for number, reason in enumerate(reasons, 1)))


def _cell(one: Combination, reasons: list[str]) -> str:
    return f"{one.ability} {reasons.index(one.reason) + 1}" if one.reason else one.ability


def _precision(found: ProcessPrecision) -> Iterable[_Row]:
    said = f" ({found.setting})" if found.setting != found.auto else ""
    yield "auto", f"{found.auto}, through {found.source}{said}"
    yield "fast", found.fast
    yield "high-prec", found.high_prec
    for number, (source, value) in enumerate(found.sources.items(), 1):
        yield f"source {number}", f"{source}: {value or 'not set'}"


def _table(console: Console, title: str, rows: Iterable[_Row]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    for row in rows:
        table.add_row(*(Text(cell, overflow="fold") for cell in row))
    if table.row_count:
        if title:
            console.print(title, style="bold")
        console.print(table)


def _required(one: Package) -> _Row:
    state = "outside the supported range" if not one.in_range else ""
    tested = "as tested" if one.as_pinned else f"tested with {one.pinned}"
    return one.name, one.installed or "missing", one.supported, state or tested


def _optional(one: Package) -> _Row:
    return one.name, one.installed or "not installed", f"for {one.purpose}"


def _tried(one: Capability) -> _Row:
    return one.name, "yes" if one.works else "no", one.detail
