"""What a function of the user's was given, where its lines have bound the name anew since."""

from __future__ import annotations

import ast
import dis
import linecache
from functools import cache
from itertools import islice
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn

_HANDING_ON = {nn.modules.module.__file__, torch.utils._contextlib.__file__}
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
    caller, code = _caller(frame), frame.f_code
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


def _caller(frame: FrameType) -> FrameType | None:
    """Who called, behind what hands its arguments on as they are: a module's call, torch's
    decorators."""
    caller = frame.f_back
    while caller is not None and caller.f_code.co_filename in _HANDING_ON:
        caller = caller.f_back
    return caller


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
