"""Statements of a script that only lay data out."""

from __future__ import annotations

import ast

_BUILTINS = frozenset({"dict", "enumerate", "len", "list", "range", "tuple", "zip"})
_LAYOUTS = frozenset(
    {
        *("array", "as_tensor", "asarray", "cat", "clone", "concatenate", "contiguous", "cpu"),
        *("expand", "flatten", "float", "from_numpy", "items", "keys", "long", "movedim", "numpy"),
        *("permute", "reshape", "squeeze", "stack", "swapaxes", "tensor", "to", "transpose"),
        *("unsqueeze", "values", "view", "vstack"),
    }
)


def lays_data_out(statement: ast.stmt) -> bool:
    """Whether it calls nothing but what lays data out, so that it gives the same without a graph:
    one at what was collected goes on through it."""
    calls = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
    simple = isinstance(statement, (ast.Assign, ast.AnnAssign))
    return simple and all(map(_is_layout, calls))


def _is_layout(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in _BUILTINS
    return isinstance(function, ast.Attribute) and function.attr in _LAYOUTS
