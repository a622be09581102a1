"""InitTracker in the place of a transform that writes start flags of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.texts import Texts

_STOCK = "InitTracker"


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    yield from case.in_spec(_stock)


def _stock(document: Any) -> bool:
    listed = (document.get("env") or {}).get("transforms") or []
    own = [n for n, one in enumerate(listed) if isinstance(one, dict) and "factory" in one]
    if len(own) != 1 or _STOCK in listed:
        return False
    listed[own[0]] = _STOCK
    return True


FIX = Fix(("WR109",), "with InitTracker in the place of the project's own flags", _ways)
