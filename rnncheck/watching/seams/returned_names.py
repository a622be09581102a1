"""What a function of the user's calls the variables that it returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FrameType

from rnncheck.watching.seams.arguments import parsed
from rnncheck.watching.seams.tails import bodies_of, body_of, holds_line


def returned_names(frame: FrameType, line: int, inner: FrameType) -> dict[str, str]:
    """By variable of ``frame``, which called ``inner`` in this line, the variable of ``inner`` that
    it was returned as; none where either is written otherwise."""
    tree, other = (parsed(one.f_code.co_filename) for one in (frame, inner))
    call = None if tree is None else next(_innermost(tree.body, line), None)
    body = [] if other is None else body_of(other, inner.f_code.co_firstlineno)
    if not isinstance(call, ast.Assign) or not isinstance(call.value, ast.Call):
        return {}
    last = body[-1] if body else None
    if not isinstance(last, ast.Return) or len(call.targets) != 1:
        return {}
    places, values = _each(call.targets[0]), _each(last.value)
    if any(isinstance(one, ast.Starred) for one in (*places, *values)):
        return {}
    pairs = zip(places, values, strict=False)
    return {
        to.id: of.id for to, of in pairs if isinstance(to, ast.Name) and isinstance(of, ast.Name)
    }


def _innermost(body: list[ast.stmt], line: int) -> Iterator[ast.stmt]:
    """The statement that holds the line, the innermost first."""
    for one in body:
        if holds_line(one, line):
            for inside in bodies_of(one):
                yield from _innermost(inside, line)
            yield one


def _each(node: ast.expr | None) -> list[ast.expr]:
    if isinstance(node, (ast.Tuple, ast.List)):
        return node.elts
    return [] if node is None else [node]
