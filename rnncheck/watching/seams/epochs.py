"""Loops over the epochs of an update, of which one tells as much as all of them while nothing is
trained: lines that are run again and again go through them once."""

from __future__ import annotations

import ast
import copy

_BODIES = ("body", "orelse", "finalbody")
_CLOSED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def of_one_epoch(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements, with each loop ``for _ in range(...)`` that has another loop in it, in which
    ``backward`` is called, ended behind its first round; not one that reads its number."""
    return [_once(one) for one in body]


def _once(one: ast.stmt) -> ast.stmt:
    if isinstance(one, _CLOSED) or not _calls_backward(one):
        return one
    made = copy.copy(one)
    for name in _BODIES:
        inner = getattr(one, name, None)
        if isinstance(inner, list):
            setattr(made, name, of_one_epoch(inner))
    if isinstance(made, ast.For) and _is_of_epochs(made):
        made.body = [*made.body, ast.copy_location(ast.Break(), made.body[-1])]
    return made


def _is_of_epochs(loop: ast.For) -> bool:
    counts = isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Name)
    if not counts or ast.unparse(loop.iter).partition("(")[0] != "range":
        return False
    nodes = [node for one in loop.body for node in ast.walk(one)]
    number = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    loads = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    inner = (one for one in nodes if isinstance(one, (ast.For, ast.While)))
    return not loads & number and any(map(_calls_backward, inner))


def _calls_backward(one: ast.AST) -> bool:
    calls = (node.func for node in ast.walk(one) if isinstance(node, ast.Call))
    return any(isinstance(call, ast.Attribute) and call.attr == "backward" for call in calls)
