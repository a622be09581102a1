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
    first = _first_stores(frame.f_code).get(name)
    return first is not None and first < frame.f_lasti


@cache
def _first_stores(code: CodeType) -> dict[str, int]:
    """Where each variable of a function is first given a value."""
    found = dict[str, int]()
    for one in dis.get_instructions(code):
        if one.opname in _BINDS:
            found.setdefault(one.argval, one.offset)
    return found


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
    tree = parsed(caller.f_code.co_filename)
    if at is None or tree is None:
        return None
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return next((one for one in calls if _place(one) == at), None)


def _place(node: ast.Call) -> tuple[int | None, ...]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


@cache
def parsed(path: str) -> ast.Module | None:
    """The file's text as it was when it was first asked for; None where it is no Python."""
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return None
