"""Lines that act on one step of what a rollout is kept in: ``memory.obs[step]`` as a variable."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import FrameType
from typing import Any

import numpy as np
from torch import Tensor

from rnncheck.watching.seams.reads import stored_by

RowsRead = Mapping[str, tuple[str, str]]  # by variable that of the array, and of the row


def rows_read(lines: list[ast.stmt], frame: FrameType, arrays: Mapping[str, Any]) -> RowsRead:
    """The rows of the ``arrays`` and of the frame's own that are read by a whole number which the
    frame has in a variable. None of an array that the lines read otherwise, or write into."""
    seen, found, whole = {**frame.f_globals, **frame.f_locals, **arrays}, dict[str, Any](), set()
    stored = stored_by(lines) | _filled(lines)
    inside = set[int]()
    for node in (node for one in lines for node in ast.walk(one)):
        if isinstance(node, ast.Subscript) and (pair := _row(node, seen)) is not None:
            found["_".join(pair)] = pair
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
    if not isinstance(node.value, ast.Name) or not isinstance(node.slice, ast.Name):
        return None
    base, index = node.value.id, node.slice.id
    array, at = seen.get(base), seen.get(index)
    data = isinstance(array, (Tensor, np.ndarray)) and array.ndim > 1
    return (base, index) if data and type(at) is int else None


class RowsRenamed(ast.NodeTransformer):
    """These rows as variables."""

    def __init__(self, rows: RowsRead) -> None:
        self._names = {pair: name for name, pair in rows.items()}

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """``obs[step]`` as ``obs_step``."""
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Name):
            name = self._names.get((node.value.id, node.slice.id))
            if name is not None:
                return ast.copy_location(ast.Name(id=name, ctx=node.ctx), node)
        return node


def row_of(array: Any, at: Any) -> Any:
    """The row, where there is one; else None."""
    data = isinstance(array, (Tensor, np.ndarray)) and array.ndim > 1 and type(at) is int
    return array[at] if data and -len(array) <= at < len(array) else None
