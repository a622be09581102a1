"""All fixes, found by their files."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from rnncheck.patch import fixes as folder
from rnncheck.patch.fix import Fix


@cache
def all_fixes() -> tuple[Fix, ...]:
    """In the order of their files."""
    modules = (import_module(f"{folder.__name__}.{m.name}") for m in iter_modules(folder.__path__))
    return tuple(module.FIX for module in modules)


def fixes_for(code: str) -> tuple[Fix, ...]:
    """Those that may mend this check."""
    return tuple(one for one in all_fixes() if code in one.codes)
