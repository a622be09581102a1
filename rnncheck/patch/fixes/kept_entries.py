"""A buffer without the transform that leaves collected entries out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.texts import Texts

_LEAVES_OUT = ("ExcludeTransform", "SelectTransform")


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    yield from case.in_spec(_kept)


def _kept(document: Any) -> bool:
    replay = document.get("replay") or {}
    listed = replay.get("transforms") or []
    found = [one for one in listed if isinstance(one, dict) and one.get("use") in _LEAVES_OUT]
    if len(found) != 1:
        return False
    listed.remove(found[0])
    if not listed:
        del replay["transforms"]
    return True


FIX = Fix(("RP503", "RP504"), "without the transform that leaves entries out of the store", _ways)
