"""Which entries of an argument a function of the user's reads by name, and nothing else of it."""

from __future__ import annotations

import ast
import functools
from types import CodeType
from typing import Any

from rnncheck.watching.forms.plain_calls import PlainCall
from rnncheck.watching.forms.structures import Path
from rnncheck.watching.seams.arguments import parsed
from rnncheck.watching.seams.frames import is_tensordict
from rnncheck.watching.seams.reads import entries_read


def is_unread(call: PlainCall, path: Path) -> bool:
    """Whether the function reads other entries of the argument that the way leads into, and nothing
    else of it."""
    if len(path) < 2:
        return False
    read = _read_of(call.code).get(path[0])
    if read is None or path[1] in read:
        return False
    value: Any = call.arguments.get(path[0])
    if is_tensordict(value):  # its batches are judged as those of TorchRL's are
        return False
    return not any(callable(getattr(value, name, None)) for name in read)  # a method may read it


@functools.cache
def _read_of(code: CodeType) -> dict[str, frozenset[str]]:
    tree = parsed(code.co_filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if node.name == code.co_name and first == code.co_firstlineno:
                return entries_read(node.body)
    return {}
