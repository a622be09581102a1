"""A loss that works on a copy of the batch that it is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit, Factory, given_names
from rnncheck.patch.texts import Texts

_COPIES = ("clone(False)", "clone()")  # the second one for what is changed in place


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    factory = case.factory("loss")
    if factory is None:
        return
    functions = [factory.function] if "function" in case.section("loss") else []
    for function in functions or factory.methods("forward").values():
        for copied in _COPIES:
            if (edit := _begun(factory, function, copied)) is not None:
                yield from case.in_factory(factory, edit)


def _begun(factory: Factory, function: ast.FunctionDef, copied: str) -> Edit | None:
    """The function with a copy of its batch made first."""
    given = [name for name in given_names(function) if name != "self"]
    body = function.body[1:] if ast.get_docstring(function) else function.body
    if not given or not body or not (indent := factory.indent(body[0])):
        return None
    at = factory.begin(body[0])
    return Edit(at, at, f"{given[0]} = {given[0]}.{copied}\n{indent}")


FIX = Fix(("LS705",), "with the loss on a copy of its batch", _ways)
