"""Targets that end where an episode terminates."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit, Factory, strings_of
from rnncheck.patch.texts import Texts

_OTHERS, _RIGHT = ("truncated", "done"), "terminated"
_SECTIONS = ("advantage", "loss")
_LOOKS_AT_ENDS = ("terminated", "truncated", "done", "over", "going", "end", "~")


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    for section in _SECTIONS:
        yield from case.in_spec(lambda document, name=section: _named(document.get(name)))  # type: ignore[misc]
        factory = case.factory(section)
        if factory is None:
            continue
        for found in strings_of(factory.tree, ("truncated",)):
            edit = Edit(factory.begin(found), factory.end(found), f'"{_RIGHT}"')
            yield from case.in_factory(factory, edit)
        for edit in _factors(factory):
            yield from case.in_factory(factory, edit)


def _named(section: Any) -> bool:
    """Another end as the one argument that names an end."""
    if not isinstance(section, dict):
        return False
    found = [key for key, value in section.items() if _end_of(value) in _OTHERS]
    if len(found) != 1:
        return False
    (key,) = found
    if isinstance(section[key], str):
        section[key] = _RIGHT
    else:
        section[key][-1] = _RIGHT
    return True


def _end_of(value: Any) -> Any:
    """The last word of a key."""
    return value[-1] if isinstance(value, list) and value else value


def _factors(factory: Factory) -> Iterator[Edit]:
    """``reward + gamma * value`` that reads no end: the value counts where nothing terminated."""
    for node in ast.walk(factory.tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            continue
        data, later = _rewarded(node.left), node.right
        said = ast.unparse(node)
        discounted = isinstance(later, ast.BinOp) and isinstance(later.op, ast.Mult)
        if data is None or not discounted or any(word in said for word in _LOOKS_AT_ENDS):
            continue
        at = factory.end(later)
        yield Edit(at, at, f' * (~{data}["next", "{_RIGHT}"]).float()')


def _rewarded(node: ast.expr) -> str | None:
    """The batch whose ``("next", "reward")`` this is."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    key = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
    named = [one.value for one in key if isinstance(one, ast.Constant)]
    return node.value.id if named == ["next", "reward"] else None


FIX = Fix(("VL603",), 'with the ends that ("next", "terminated") names', _ways)
