"""Whether a batch came out of a memory of the user's own class: the lines of the function that bind
it read nothing of the batch that the function was given, and those behind them neither."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from types import FrameType

from rnncheck.watching.seams.arguments import parsed
from rnncheck.watching.seams.lines import bound_by, loads_of
from rnncheck.watching.seams.tails import bodies_of, body_of

_LOOPS = (ast.For, ast.AsyncFor)


def through_own_memories(
    frame: FrameType, names: Iterable[str], arguments: Iterable[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Of the batches ``names`` those among the frame's ``arguments`` that are read no more where
    others of them were bound, and these."""
    code, inside = frame.f_code, set(names)
    given = frozenset(inside & set(arguments))
    others = frozenset(inside - given)
    if not given or not others:
        return frozenset(), frozenset()
    return _parted(code.co_filename, code.co_firstlineno, frame.f_lineno, given, others)


@functools.cache
def _parted(
    path: str, first: int, line: int, given: frozenset[str], others: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    tree = parsed(path)
    body = [] if tree is None else body_of(tree, first)
    of_it = _made_of(body, given)
    drawn = {name for name in others - of_it if _is_all_that_is_read(body, name, line, of_it)}
    return (given, frozenset(drawn)) if drawn else (frozenset(), frozenset())


def _made_of(body: list[ast.stmt], given: frozenset[str]) -> frozenset[str]:
    """The names that some line may make of those, or put them into."""
    found, count = set(given), 0
    while len(found) > count:
        count = len(found)
        for one in (node for statement in body for node in ast.walk(statement)):
            if isinstance(one, (ast.stmt, ast.NamedExpr)) and _reads(one) & found:
                found |= _written(one)
    return frozenset(found)


def _reads(node: ast.stmt | ast.NamedExpr) -> set[str]:
    """What the value is made of that it writes."""
    value: ast.AST | None = getattr(node, "iter", None) or getattr(node, "value", None)
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return {name for one in node.items for name in loads_of(one.context_expr)}
    return set() if value is None else loads_of(value)


def _written(node: ast.stmt | ast.NamedExpr) -> set[str]:
    """The variables that get a value, or something put into: of ``self.memory.add(batch)`` none,
    for what an object of the user's holds by then may be much more."""
    if isinstance(node, (ast.With, ast.AsyncWith)):
        targets: list[ast.expr | None] = [one.optional_vars for one in node.items]
    elif isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, ast.Expr):
        call = node.value.func if isinstance(node.value, ast.Call) else None
        held = call.value if isinstance(call, ast.Attribute) else None
        targets = [held if isinstance(held, ast.Name) else None]
    else:
        targets = [getattr(node, "target", None)]
    return {name for one in targets if one is not None for name in _variables(one)}


def _variables(target: ast.expr) -> Iterator[str]:
    """Those of ``a, b["key"]``, and not what objects hold."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Subscript, ast.Starred)):
        yield from _variables(target.value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for one in target.elts:
            yield from _variables(one)


def _is_all_that_is_read(body: list[ast.stmt], name: str, line: int, of_it: frozenset[str]) -> bool:
    """Whether the lines behind the latest that binds the name read nothing of what is ``of_it``."""
    bindings = [one for one in _behind_bindings(body, name) if one[0] <= line]
    if not bindings:
        return False
    _, behind = max(bindings, key=lambda one: one[0])
    left = set(of_it)
    for one in behind:
        if loads_of(one) & left:
            return False
        left -= set(bound_by(one))
    return True


def _behind_bindings(body: list[ast.stmt], name: str) -> Iterator[tuple[int, list[ast.stmt]]]:
    """Where the name is bound, and the rest of that block."""
    for number, one in enumerate(body):
        if isinstance(one, _LOOPS) and name in _variables(one.target):
            yield one.lineno, one.body
        elif isinstance(one, (ast.Assign, ast.AnnAssign)) and name in bound_by(one):
            yield one.lineno, body[number + 1 :]
        for inner in bodies_of(one):
            yield from _behind_bindings(inner, name)
