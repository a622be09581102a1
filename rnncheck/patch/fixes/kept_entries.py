"""A buffer, or a batch, without what leaves collected entries out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit, Factory
from rnncheck.patch.texts import Texts

_LEAVES_OUT = ("ExcludeTransform", "SelectTransform")
_METHODS = ("exclude", "select")


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    yield from case.in_spec(_kept)
    if (factory := case.factory("batch")) is not None and (edit := _whole(factory)) is not None:
        yield from case.in_factory(factory, edit)


def _whole(factory: Factory) -> Edit | None:
    """What is returned, without the call that leaves entries of it out."""
    returned = factory.only_return
    call = None if returned is None else returned.value
    method = call.func if isinstance(call, ast.Call) else None
    if call is None or not isinstance(method, ast.Attribute) or method.attr not in _METHODS:
        return None
    return Edit(factory.begin(call), factory.end(call), factory.source(method.value))


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


FIX = Fix(("RP503", "RP504"), "without what leaves entries out", _ways)
