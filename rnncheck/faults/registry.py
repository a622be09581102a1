"""All planted faults, found by their files."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

from rnncheck.errors import UserError, did_you_mean
from rnncheck.faults.fault import Fault
from rnncheck.results.model import Stage


@cache
def faults() -> tuple[Fault, ...]:
    """Every fault, by stage, then by name. Imports torch."""
    names = [found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)])]
    modules = (import_module(f"rnncheck.faults.{name}") for name in names)
    found = [
        replace(fault, summary=(module.__doc__ or "").strip().splitlines()[0])
        for module in modules
        if isinstance(fault := getattr(module, "FAULT", None), Fault)
    ]
    order = list(Stage)
    return tuple(sorted(found, key=lambda fault: (order.index(fault.stage), fault.name)))


def select_faults(names: Sequence[str]) -> tuple[Fault, ...]:
    """The faults whose name is, or begins with, one of ``names``; all of them where none is
    given."""
    if not names:
        return faults()
    for name in names:
        if not any(fault.name.startswith(name) for fault in faults()):
            known = [fault.name for fault in faults()]
            hint = did_you_mean(name, known) or "`rnncheck selftest --list` names them all"
            raise UserError(f"no fault is called {name!r}", hint=hint)
    return tuple(fault for fault in faults() if fault.name.startswith(tuple(names)))
