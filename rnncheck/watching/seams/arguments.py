"""What a function of the user's was given, where its lines have bound the name anew since."""

from __future__ import annotations

import ast
import dis
import linecache
from functools import cache
from itertools import islice
from types import CodeType, FrameType
from typing import Any

_BINDS = ("STORE_FAST", "STORE_DEREF")


def bound_anew(frame: FrameType, name: str) -> bool:
    """Whether a line before the present one may have given the parameter another value."""
    return any(offset < frame.f_lasti for offset in _stores(frame.f_code, name))


@cache
def _stores(code: CodeType, name: str) -> tuple[int, ...]:
    found = dis.get_instructions(code)
    return tuple(one.offset for one in found if one.opname in _BINDS and one.argval == name)


def given_by_caller(frame: FrameType, name: str, *, bound: bool) -> Any:
    """The variable that the caller's line hands over as the parameter; None where it hands over
    anything but a variable. ``bound``: the function is called as a method."""
    caller, code = frame.f_back, frame.f_code
    call = None if caller is None else _call(caller)
    if caller is None or call is None:
        return None
    index = code.co_varnames[: code.co_argcount].index(name) - bound
    keywords = {one.arg: one.value for one in call.keywords}
    plain = not any(isinstance(one, ast.Starred) for one in call.args)
    value = call.args[index] if plain and 0 <= index < len(call.args) else keywords.get(name)
    if not isinstance(value, ast.Name):
        return None
    return caller.f_locals.get(value.id, caller.f_globals.get(value.id))


def _call(caller: FrameType) -> ast.Call | None:
    """The call that the frame is in."""
    at = next(islice(caller.f_code.co_positions(), caller.f_lasti // 2, None), None)
    tree = _parsed(caller.f_code.co_filename)
    if at is None or tree is None:
        return None
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return next((one for one in calls if _place(one) == at), None)


def _place(node: ast.Call) -> tuple[int | None, ...]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


@cache
def _parsed(path: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return None
