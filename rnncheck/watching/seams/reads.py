"""Which names lines of Python read that they have not bound themselves by then."""

from __future__ import annotations

import ast
from collections.abc import Iterable

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_INNER = ("body", "orelse", "finalbody")


def read_first(body: list[ast.stmt]) -> set[str]:
    """The names; one that only one branch binds may be read behind it as it was before."""
    return _of_block(body, set())


def _of_block(body: Iterable[ast.stmt], bound: set[str]) -> set[str]:
    """What the statements read, in turn; ``bound`` grows by what they bind."""
    read = set[str]()
    for one in body:
        read |= _of_statement(one, bound)
    return read


def _of_statement(one: ast.stmt, bound: set[str]) -> set[str]:
    if isinstance(one, _DEFINITIONS):
        bound.add(one.name)
        return _loads([one]) - bound - stored_by([one])
    inner = [item for name in _INNER for item in getattr(one, name, [])]
    read = _loads(_own(one)) - bound
    if isinstance(one, ast.AugAssign):
        read |= {node.id for node in [one.target] if isinstance(node, ast.Name)} - bound
    if isinstance(one, ast.If):
        branches = [set(bound), set(bound)]
        read |= _of_block(one.body, branches[0]) | _of_block(one.orelse, branches[1])
        bound |= branches[0] & branches[1]
        return read
    bound |= stored_by(_own(one))
    if inner or isinstance(one, (ast.Match, ast.Try)):
        caught = getattr(one, "handlers", [])
        read |= _loads([held.type for held in caught if held.type is not None]) - bound
        handlers = [item for held in caught for item in held.body]
        cases = [item for held in getattr(one, "cases", []) for item in held.body]
        read |= _of_block([*inner, *handlers, *cases], bound)  # a loop runs again, and binds again
    return read


def _own(one: ast.stmt) -> list[ast.AST]:
    """The parts of a statement that are no statements."""
    found: list[ast.AST] = []
    for name, value in ast.iter_fields(one):
        if name not in (*_INNER, "handlers", "cases"):
            found += value if isinstance(value, list) else [value]
    return [item for item in found if isinstance(item, ast.AST)]


def _loads(nodes: Iterable[ast.AST]) -> set[str]:
    inside = [node for one in nodes for node in ast.walk(one)]
    own = {
        name
        for node in inside
        if isinstance(node, ast.comprehension)
        for name in stored_by([node.target])
    }
    names = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return names - own


def stored_by(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that they bind."""
    inside = (node for one in nodes for node in ast.walk(one))
    return {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def entries_read(body: Iterable[ast.AST]) -> dict[str, frozenset[str]]:
    """By name, the entries that are read of what is read by constant entries of it alone:
    ``td["observation"]``, ``td["next", "reward"]``, ``td.get("h")``, ``batch.reward``."""
    nodes = [node for one in body for node in ast.walk(one)]
    found, told = dict[str, set[str]](), set[int]()
    for node in nodes:
        if (entry := _entry(node)) is not None and id(entry[0]) not in told:
            name, key, stored = entry
            told.add(id(name))
            found.setdefault(name.id, set())
            if not stored:
                found[name.id].add(key)
    bare = (n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    for one in bare:
        if id(one) not in told:
            found.pop(one.id, None)
    return {name: frozenset(keys) for name, keys in found.items()}


def _entry(node: ast.AST) -> tuple[ast.Name, str, bool] | None:
    """Of a node that reads or stores a constant entry of a name: the name, the first part of the
    entry, and whether it stores it."""
    owner: ast.expr
    if isinstance(node, ast.Subscript):
        owner, key, stored = node.value, node.slice, isinstance(node.ctx, ast.Store)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        if node.func.attr != "get":
            return None
        owner, key, stored = node.func.value, node.args[0], False
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value, node.attr, isinstance(node.ctx, ast.Store)
    else:
        return None
    key = key.elts[0] if isinstance(key, ast.Tuple) and key.elts else key
    named = key.value if isinstance(key, ast.Constant) else None
    if not isinstance(owner, ast.Name) or not isinstance(named, str):
        return None
    return owner, named, stored
