"""A buffer that does not apply again what the env has applied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.texts import Texts


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    yield from case.in_spec(_once)


def _once(document: Any) -> bool:
    replay = document.get("replay") or {}
    listed = replay.get("transforms") or []
    kinds = {_kind(one) for one in (document.get("env") or {}).get("transforms") or []}
    found = [one for one in listed if _kind(one) in kinds]
    if len(found) != 1:
        return False
    listed.remove(found[0])
    if not listed:
        del replay["transforms"]
    return True


def _kind(entry: Any) -> Any:
    """The transform's class or factory."""
    if isinstance(entry, dict):
        return entry.get("use") or entry.get("factory")
    return entry


FIX = Fix(("RP507",), "without the buffer's transform that the env applies already", _ways)
