"""Sequential mode around what collects."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit, calls_of
from rnncheck.patch.texts import Texts


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    factory = case.factory("collect")
    if factory is None:
        return
    modes = calls_of(factory.function, "set_recurrent_mode")
    given = modes[0].args[0] if len(modes) == 1 and modes[0].args else None
    if isinstance(given, ast.Constant) and given.value in (True, "recurrent"):
        edit = Edit(factory.begin(given), factory.end(given), "False")
        yield from case.in_factory(factory, edit)
    elif isinstance(given, ast.Name) and case.section("collect").get(given.id) is True:
        yield from case.in_spec(lambda document: _sequential(document, given.id))


def _sequential(document: Any, argument: str) -> bool:
    document["collect"][argument] = False
    return True


FIX = Fix(("CL410",), "with the collection in sequential mode", _ways)
