"""Loops over the weights of a network that read them, and write none: ``p.data.mul(0.99).add(q)``
without the underscores, or a mix of each with itself in place of the other network's."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from torch import Tensor

from rnncheck.watching.forms.source_scopes import name_of

_WEIGHTS = frozenset({"parameters", "named_parameters", "buffers", "named_buffers"})
_VIEWS = frozenset({"data", "T", "mT"})  # attributes that are the weight itself

ParentOf = Callable[[ast.AST], ast.AST | None]


def are_read_alone(taken: ast.Attribute, parent_of: ParentOf) -> bool:
    """Whether ``net.parameters`` is what a ``for`` goes through, by itself or in a ``zip``, and its
    lines write none of these weights, or read none of the others beside them."""
    call = parent_of(taken)
    if taken.attr not in _WEIGHTS or not isinstance(call, ast.Call) or call.func is not taken:
        return False
    loop, mine, others = _loop_of(call, parent_of)  # its names, and those of other weights
    if loop is None or not mine:
        return False
    body = [node for line in loop.body for node in ast.walk(line)]
    if any(isinstance(node, ast.FunctionDef | ast.Lambda | ast.comprehension) for node in body):
        return False
    named = [node for node in body if isinstance(node, ast.Name)]
    if others and not any(node.id in others for node in named):
        return True
    return all(_is_read(node, parent_of) for node in named if node.id in mine)


def _loop_of(
    call: ast.Call, parent_of: ParentOf
) -> tuple[ast.For | None, Sequence[str], Sequence[str]]:
    """The loop through what the call gives, its names for that, and those for what is beside it."""
    up = parent_of(call)
    if isinstance(up, ast.For) and up.iter is call:
        return up, list(_names(up.target)), ()
    loop = None if up is None else parent_of(up)
    zipped = isinstance(up, ast.Call) and name_of(up.func) == "zip"
    if not zipped or not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple):
        return None, (), ()
    assert isinstance(up, ast.Call)
    mine, others = list[str](), list[str]()
    for given, target in zip(up.args, loop.target.elts, strict=False):
        if given is call:
            mine.extend(_names(target))
        elif isinstance(given, ast.Call) and name_of(given.func) in _WEIGHTS:
            others.extend(_names(target))
    return loop, mine, others


def _names(target: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _is_of_weights(method: ast.AST) -> bool:
    """Whether it is called on a weight, by name or by its ``data``, and not on a package."""
    owner = method.value if isinstance(method, ast.Attribute) else method
    return isinstance(owner, ast.Attribute) and owner.attr in _VIEWS


def _is_read(name: ast.AST, parent_of: ParentOf) -> bool:
    """Whether the line makes something else of the weight, and leaves it as it is."""
    at, up = name, parent_of(name)
    while isinstance(up, ast.Attribute) and isinstance(up.ctx, ast.Load):
        call = parent_of(up)
        if up.attr in _VIEWS:
            at, up = up, call
            continue
        called = isinstance(call, ast.Call) and call.func is up
        if not called or up.attr.endswith("_") or not hasattr(Tensor, up.attr):
            return False
        assert call is not None
        at, up = call, parent_of(call)
    if isinstance(up, ast.Call) and up.func is not at:
        named = up.func.attr if isinstance(up.func, ast.Attribute) else ""
        first = named.endswith("_") and up.args[:1] == [at]  # as in torch.relu_(p)
        return hasattr(Tensor, named) and not (first and not _is_of_weights(up.func))
    return isinstance(up, ast.BinOp | ast.Expr)
