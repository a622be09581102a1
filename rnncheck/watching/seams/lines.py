"""The lines of a user's loop from where a batch is there to where ``backward`` is called, as a
function of the batch."""

from __future__ import annotations

import ast
import copy
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

_NAME = "training_step"


@dataclass(frozen=True)
class Lines:
    """The function, and the name that the batch has in it."""

    function: Callable[..., Any]
    batch: str


@dataclass(frozen=True)
class _Block:
    """Statements up to the one that holds the line, behind those that bind a batch's name."""

    batch: str
    body: list[ast.stmt]


def lines_between(frame: FrameType, names: set[str]) -> Lines | None:
    """What the frame does with the batch of one of ``names`` up to its present line."""
    tree = _tree(frame.f_code.co_filename)
    found = None if tree is None else _block(tree.body, frame.f_lineno, names)
    if found is None:
        return None
    function = _compiled(found, frame)
    return None if function is None else Lines(function, found.batch)


def _tree(path: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return None


def _block(body: list[ast.stmt], line: int, names: set[str]) -> _Block | None:
    """The innermost block around the line in which one of ``names`` is bound."""
    around = [n for n, one in enumerate(body) if _holds(one, line)]  # several may share a line
    if not around:
        return None
    statement = body[around[-1]]
    for inner in _bodies(statement):
        if found := _block(inner, line, names):
            return found
    if isinstance(statement, ast.For):
        bound = [name for name in _bound(statement.target) if name in names]
        if bound and line >= statement.body[0].lineno:
            return _Block(bound[0], _up_to(statement.body, line))
    for index, one in enumerate(body[: around[-1]]):
        if bound := [name for name in _assigned(one) if name in names]:
            return _Block(bound[0], body[index + 1 : around[-1] + 1])
    return None


def _holds(statement: ast.stmt, line: int) -> bool:
    return statement.lineno <= line <= (statement.end_lineno or statement.lineno)


def _up_to(body: list[ast.stmt], line: int) -> list[ast.stmt]:
    return [one for one in body if one.lineno <= line]


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        inner = getattr(statement, name, None)
        if isinstance(inner, list):
            yield inner
    for handler in getattr(statement, "handlers", ()):
        yield handler.body


def _assigned(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _bound(target)
    elif isinstance(statement, ast.AnnAssign):
        yield from _bound(statement.target)


def _bound(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for one in target.elts:
            yield from _bound(one)


def _compiled(block: _Block, frame: FrameType) -> Callable[..., Any] | None:
    """A function whose other names are what they are in the frame now."""
    stored = {
        node.id
        for one in block.body
        for node in ast.walk(one)
        if isinstance(node, ast.Name) and node.id != block.batch
    }
    held = {k: v for k, v in frame.f_locals.items() if k in stored and k != block.batch}
    if frame.f_locals is frame.f_globals:  # a script's own lines: what is only read stays global
        held = {k: v for k, v in held.items() if k in _stores(block.body)}
    first = block.body[0].lineno
    once = ast.For(
        target=ast.Name(id="_", ctx=ast.Store()),
        iter=ast.Tuple(elts=[ast.Constant(value=0)], ctx=ast.Load()),
        body=[copy.deepcopy(one) for one in block.body],
        orelse=[],
    )  # so that `continue` means what it meant
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(arg=block.batch)],
        kwonlyargs=[ast.arg(arg=name) for name in held],
        kw_defaults=[ast.Constant(value=None) for _ in held],
        defaults=[],
    )
    made = ast.FunctionDef(name=_NAME, args=arguments, body=[once], decorator_list=[])
    module = ast.Module(body=[made], type_ignores=[])
    for node in ast.walk(module):
        if isinstance(node, (ast.stmt, ast.expr, ast.arg)) and not hasattr(node, "lineno"):
            node.lineno = node.end_lineno = first
            node.col_offset = node.end_col_offset = 0
    return _function(module, frame, held)


def _stores(body: list[ast.stmt]) -> set[str]:
    nodes = [node for one in body for node in ast.walk(one)]
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _function(
    module: ast.Module, frame: FrameType, held: dict[str, Any]
) -> Callable[..., Any] | None:
    try:
        whole = compile(module, frame.f_code.co_filename, "exec")
    except (SyntaxError, ValueError):  # what only stands inside its function, such as `yield`
        return None
    code = next(one for one in whole.co_consts if isinstance(one, CodeType))
    function = FunctionType(code, frame.f_globals, _NAME)
    function.__kwdefaults__ = held
    return function
