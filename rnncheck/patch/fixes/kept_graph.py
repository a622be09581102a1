"""A state that keeps its graph from step to step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit, Factory
from rnncheck.patch.texts import Texts

_MOST = 6  # places that are tried: chosen, a file with more is unclear
_SECTIONS = ("loss", "policy")


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    for factory in filter(None, map(case.factory, _SECTIONS)):
        edits = list(_attached(factory))
        for edit in edits if len(edits) <= _MOST else ():
            yield from case.in_factory(factory, edit)


def _attached(factory: Factory) -> Iterator[Edit]:
    """Each ``value.detach()`` as the value; a choice between the two as well."""
    choices = [n for n in ast.walk(factory.tree) if isinstance(n, ast.IfExp)]
    chosen = {id(n.body): n for n in choices if _is_choice(n)}
    for node in ast.walk(factory.tree):
        value = _detached(node)
        if value is not None:
            whole = chosen.get(id(node), node)
            assert isinstance(whole, ast.expr)
            yield Edit(factory.begin(whole), factory.end(whole), factory.source(value))


def _is_choice(node: ast.IfExp) -> bool:
    """``value.detach() if ... else value``."""
    value = _detached(node.body)
    return value is not None and ast.unparse(value) == ast.unparse(node.orelse)


def _detached(node: ast.AST) -> ast.expr | None:
    """The value of a call of ``detach``."""
    method = node.func if isinstance(node, ast.Call) and not node.args else None
    named = isinstance(method, ast.Attribute) and method.attr == "detach"
    return method.value if named and isinstance(method, ast.Attribute) else None


FIX = Fix(("GR801",), "without the detach() between steps", _ways)
