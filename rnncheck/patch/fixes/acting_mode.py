"""Sequential mode around what collects."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit
from rnncheck.patch.texts import Texts


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    factory = case.factory("collect")
    if factory is None:
        return
    calls = [node for node in ast.walk(factory.function) if isinstance(node, ast.Call)]
    modes = [n for n in calls if ast.unparse(n.func).rpartition(".")[2] == "set_recurrent_mode"]
    given = modes[0].args[0] if len(modes) == 1 and modes[0].args else None
    if isinstance(given, ast.Constant) and given.value in (True, "recurrent"):
        edit = Edit(factory.begin(given), factory.end(given), "False")
        yield from case.in_factory(factory, edit)


FIX = Fix(("CL410",), "with the collection in sequential mode", _ways)
