"""Lists and dicts that a script's lines fill, which were empty when these began: by the time that
``backward`` is called they hold what the lines would put into them once more."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rnncheck.watching.seams.reads import stored_by
from rnncheck.watching.seams.tails import bodies_of, holds_line, names_in

_MAKES = ("list", "dict")  # of nothing
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def begun_empty(tree: ast.Module, line: int, until: int) -> dict[str, type]:
    """What is bound to an empty one ahead of the statement that holds ``line``, in the innermost
    block that has it and ``until`` apart, and not mentioned from there to behind that statement;
    nor in a function, which may have filled it."""
    ahead = _ahead(tree.body, line, until)
    functions: list[ast.AST] = [one for one in ast.walk(tree) if isinstance(one, _FUNCTIONS)]
    found, mentioned = dict[str, type](), set[str]()
    for one in reversed(ahead):
        empty = dict(_emptied(one))
        found |= {name: kind for name, kind in empty.items() if name not in mentioned}
        mentioned |= names_in([one])
    return {name: kind for name, kind in found.items() if not _is_used(name, functions, line)}


def _ahead(body: list[ast.stmt], line: int, until: int) -> list[ast.stmt]:
    """The statements of that block up to the one that holds ``line``."""
    begins = [n for n, one in enumerate(body) if holds_line(one, line)]
    ends = [n for n, one in enumerate(body) if holds_line(one, until)]
    if not begins or not ends:
        return []
    if begins[-1] < ends[-1]:
        return body[: begins[-1] + 1]
    inner = (_ahead(one, line, until) for one in bodies_of(body[begins[-1]]))
    return next((found for found in inner if found), [])


def _emptied(statement: ast.stmt) -> Iterator[tuple[str, type]]:
    """The names that it binds to an empty list or dict of their own."""
    if isinstance(statement, ast.AnnAssign):
        targets: list[ast.expr] = [statement.target]
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        targets = statement.targets
    else:
        return
    target, value = targets[0], statement.value
    pairs = [(target, value)]
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        pairs = list(zip(target.elts, value.elts, strict=False))
    for one, made in pairs:
        kind = _kind(made)
        if isinstance(one, ast.Name) and kind is not None:
            yield one.id, kind


def _kind(value: ast.expr | None) -> type | None:
    if isinstance(value, ast.List) and not value.elts:
        return list
    if isinstance(value, ast.Dict) and not value.keys:
        return dict
    made = isinstance(value, ast.Call) and not value.args and not value.keywords
    named = value.func if made and isinstance(value, ast.Call) else None
    if isinstance(named, ast.Name) and named.id in _MAKES:
        return list if named.id == "list" else dict
    return None


def _is_used(name: str, functions: list[ast.AST], line: int) -> bool:
    """Whether a function other than the one around the line mentions it as one of another's."""
    others = (one for one in functions if not _is_around(one, line))
    return any(_mentions(one, name) for one in others)


def _is_around(function: ast.AST, line: int) -> bool:
    first, last = getattr(function, "lineno", 0), getattr(function, "end_lineno", 0)
    return not isinstance(function, ast.Lambda) and bool(first <= line <= last)


def _mentions(function: ast.AST, name: str) -> bool:
    """Whether it reads the name and does not bind it itself."""
    arguments = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    shared = (n for n in ast.walk(function) if isinstance(n, (ast.Global, ast.Nonlocal)))
    if any(name in one.names for one in shared):
        return True
    read = any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(function))
    return read and name not in arguments | stored_by([function])
