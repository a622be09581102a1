"""A primer that gives the same state at every reset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.texts import Texts


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    yield from case.in_spec(_steady)


def _steady(document: Any) -> bool:
    found = [one for one in (document.get("env") or {}).get("transforms") or [] if _is_random(one)]
    for one in found:
        del one["random"]
    return bool(found)


def _is_random(entry: Any) -> bool:
    named = isinstance(entry, dict) and entry.get("use") == "TensorDictPrimer"
    return named and entry.get("random") is True


FIX = Fix(("WR105",), "without `random` in the primer", _ways)
