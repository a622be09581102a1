"""A network that is run over the batch for nothing but what it leaves there: on a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit
from rnncheck.patch.texts import Texts


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    factory = case.factory("advantage")
    if factory is None:
        return
    for call in map(_bare_call, ast.walk(factory.function)):
        if call is not None:
            argument = call.args[0]
            said = factory.source(argument)
            said = said if isinstance(argument, ast.Name) else f"({said})"
            edit = Edit(factory.begin(argument), factory.end(argument), f"{said}.copy()")
            yield from case.in_factory(factory, edit)


def _bare_call(node: ast.AST) -> ast.Call | None:
    """``critic(batch)`` as a statement of its own."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    named = call.func.id in ("critic", "policy")
    return call if named and len(call.args) == 1 and not call.keywords else None


FIX = Fix(("VL604", "VL602"), "with the critic run on a copy of the batch before", _ways)
