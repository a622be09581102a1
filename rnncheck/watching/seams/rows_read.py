"""Lines that act on one step of what a rollout is kept in: ``memory.obs[step]``, or the last thing
in a list, ``obs[-1]``, as a variable."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Mapping
from types import FrameType
from typing import Any

import numpy as np
from torch import Tensor

from rnncheck.watching.seams.reads import stored_by

_LAST, _LAST_NAMED = "-1", "last"
RowsRead = Mapping[str, tuple[str, str]]  # by variable that of the array, and of the row


def rows_read(lines: list[ast.stmt], frame: FrameType, arrays: Mapping[str, Any]) -> RowsRead:
    """The rows of the ``arrays`` and of the frame's own that are read by a whole number which the
    frame has in a variable, and the last things in lists. None of an array or a list that the lines
    read otherwise, or write into."""
    seen, found, whole = {**frame.f_globals, **frame.f_locals, **arrays}, dict[str, Any](), set()
    stored = stored_by(lines) | _filled(lines)
    inside = set[int]()
    for node in (node for one in lines for node in ast.walk(one)):
        if isinstance(node, ast.Subscript) and (pair := _row(node, seen)) is not None:
            found["_".join((pair[0], _LAST_NAMED if pair[1] == _LAST else pair[1]))] = pair
            inside.add(id(node.value))
        elif isinstance(node, ast.Name) and id(node) not in inside:
            whole.add(node.id)
    return {
        name: (base, index)
        for name, (base, index) in found.items()
        if not {base, index} & stored and base not in whole and name not in seen
    }


def _filled(lines: list[ast.stmt]) -> set[str]:
    nodes = (node for one in lines for node in ast.walk(one))
    return {
        node.value.id
        for node in nodes
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
    }


def _row(node: ast.Subscript, seen: Mapping[str, Any]) -> tuple[str, str] | None:
    base, index = node.value.id if isinstance(node.value, ast.Name) else "", _index(node)
    row = row_of(seen.get(base), number_of(index, seen))
    return (base, index) if index and row is not None else None


def _index(node: ast.Subscript) -> str:
    """The name of the number, or that of the last thing; empty for anything else."""
    if isinstance(node.slice, ast.Name):
        return node.slice.id
    return _LAST if ast.unparse(node.slice) == _LAST else ""


class RowsRenamed(ast.NodeTransformer):
    """These rows as variables."""

    def __init__(self, rows: RowsRead) -> None:
        self._names = {pair: name for name, pair in rows.items()}

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """``obs[step]`` as ``obs_step``."""
        self.generic_visit(node)
        name = None
        if isinstance(node.value, ast.Name):
            name = self._names.get((node.value.id, _index(node)))
        if name is None:
            return node
        return ast.copy_location(ast.Name(id=name, ctx=node.ctx), node)


def number_of(index: str, seen: Mapping[str, Any]) -> Any:
    """Which row that is."""
    return -1 if index == _LAST else seen.get(index)


def row_of(held: Any, at: Any) -> Any:
    """The row of an array, or the last one in a list of arrays; None where there is none."""
    if type(at) is not int:
        return None
    if isinstance(held, (list, deque)):
        last = held[-1] if held and at == -1 else None
        return last if isinstance(last, (Tensor, np.ndarray)) and last.ndim else None
    data = isinstance(held, (Tensor, np.ndarray)) and held.ndim > 1
    return held[at] if data and -len(held) <= at < len(held) else None
