"""Means over the steps that a mask calls data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit, Factory, given_names
from rnncheck.patch.texts import Texts

_STATISTICS = ("mean", "std")
_SECTIONS = ("loss", "advantage")


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    finding = case.cause.findings[0]
    if not finding.key or f'"{finding.key.split(".")[-1]}"]' not in finding.fix:
        return  # there is no mask
    key = ", ".join(f'"{part}"' for part in finding.key.split("."))
    sign = "~" if f"~batch[{key}]" in finding.fix else ""
    for factory in filter(None, map(case.factory, _SECTIONS)):
        for function in (n for n in ast.walk(factory.tree) if isinstance(n, ast.FunctionDef)):
            for value, calls in _statistics(function).items():
                for batch in _batches(function, value):
                    yield from _masked(case, factory, calls, f"[{sign}{batch}[{key}]]")


def _statistics(function: ast.FunctionDef) -> dict[str, list[ast.expr]]:
    """By the value that they are of: means and deviations over a whole batch."""
    found = dict[str, list[ast.expr]]()
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or node.args or node.keywords:
            continue
        method = node.func
        if isinstance(method, ast.Attribute) and method.attr in _STATISTICS:
            found.setdefault(ast.unparse(method.value), []).append(method.value)
    return {value: calls for value, calls in found.items() if value.isidentifier()}


def _batches(function: ast.FunctionDef, value: str) -> list[str]:
    """What may hold the mask: what the function is given."""
    return [name for name in given_names(function) if name not in ("self", value)]


def _masked(
    case: BrokenFiles, factory: Factory, calls: list[ast.expr], mask: str
) -> Iterator[Texts]:
    places = [factory.end(value) for value in calls]
    yield from case.in_factory(factory, *(Edit(at, at, mask) for at in places))


FIX = Fix(("RP505",), "with means over the steps that are data", _ways)
