"""All repairs, found by their files."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from rnncheck.checks.engine import repairs as folder
from rnncheck.checks.engine.repairs.repair import Repair


@cache
def all_repairs() -> tuple[Repair, ...]:
    """In the order of their files."""
    modules = (import_module(f"{folder.__name__}.{m.name}") for m in iter_modules(folder.__path__))
    return tuple(m.REPAIR for m in modules if isinstance(getattr(m, "REPAIR", None), Repair))


def repairs_for(code: str) -> tuple[Repair, ...]:
    """The repairs that do what this check's fix says, to be tried in turn."""
    return tuple(one for one in all_repairs() if code in one.codes)
