"""What a function of the user's was given, where its lines have bound the name anew since."""

from __future__ import annotations

import ast
import dis
import linecache
from collections.abc import Iterable
from functools import cache
from itertools import islice
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rnncheck.watching.seams.frames import frame_arguments, owner_of

_HANDING_ON = {nn.modules.module.__file__, torch.utils._contextlib.__file__}
UNTOLD = object()
_BINDS = frozenset(dis.opmap[name] for name in ("STORE_FAST", "STORE_DEREF"))
# Python 3.13 joins two in one, four bits for each variable: whether the second is stored too.
_JOINED = {
    dis.opmap[name]: name.count("STORE") > 1
    for name in ("STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST")
    if name in dis.opmap
}


def bound_anew(frame: FrameType, names: Iterable[str]) -> list[str]:
    """The parameters that a line before the present one may have given another value."""
    first, now = _first_stores(frame.f_code), frame.f_lasti
    return [name for name in names if name in first and first[name] < now]


@cache
def _first_stores(code: CodeType) -> dict[str, int]:
    """Where each variable of a function is first given a value. Read by hand: `dis` takes
    milliseconds for a long function, of the script's time."""
    cells = (name for name in code.co_cellvars if name not in code.co_varnames)
    names, text = (*code.co_varnames, *cells, *code.co_freevars), code.co_code
    found, high = dict[str, int](), 0
    for at in range(0, len(text), 2):
        operation, number = text[at], high | text[at + 1]
        high = number << 8 if operation == dis.EXTENDED_ARG else 0
        bound: tuple[int, ...] = (number,) if operation in _BINDS else ()
        if (both := _JOINED.get(operation)) is not None:
            bound = (number >> 4, number & 15)[: 1 + both]
        for one in bound:
            found.setdefault(names[one], at)
    return found


def given_by_caller(frame: FrameType, name: str, *, bound: bool) -> Any:
    """What the caller's line hands over as the parameter; ``UNTOLD`` where that is anything but a
    variable, a constant, an attribute or items of such, or a tuple of these. ``bound``: the
    function is called as a method."""
    caller, code = _caller(frame), frame.f_code
    call = None if caller is None else call_at(caller)
    if caller is None or call is None:
        return UNTOLD
    places = {one: at for at, one in enumerate(code.co_varnames[: code.co_argcount])}
    index = places.get(name, -1) - bound  # one that only a keyword gives has none
    keywords = {one.arg: one.value for one in call.keywords}
    plain = not any(isinstance(one, ast.Starred) for one in call.args)
    value = call.args[index] if plain and 0 <= index < len(call.args) else keywords.get(name)
    if value is None and plain and None not in keywords:
        return _default_of(code, name)
    return UNTOLD if value is None else _value_of(value, caller)


@cache
def _default_of(code: CodeType, name: str) -> Any:
    """What a parameter is where the caller gives nothing, if that is a constant."""
    tree = parsed(code.co_filename)
    made = None if tree is None else function_at(tree, code.co_firstlineno)
    if made is None:
        return UNTOLD
    own = made.args
    places = [*own.posonlyargs, *own.args][len(own.posonlyargs + own.args) - len(own.defaults) :]
    pairs = [*zip(places, own.defaults, strict=True)]
    pairs += [(o, v) for o, v in zip(own.kwonlyargs, own.kw_defaults, strict=True) if v is not None]
    value = {one.arg: value for one, value in pairs}.get(name)
    return value.value if isinstance(value, ast.Constant) else UNTOLD


def function_at(tree: ast.Module, first: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function that begins in the line ``first``, with its decorators."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(tree) if isinstance(node, kinds))
    return next((n for n in nodes if min(o.lineno for o in (n, *n.decorator_list)) == first), None)


def _value_of(node: ast.expr, caller: FrameType) -> Any:
    """Without calling anything."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return caller.f_locals.get(node.id, caller.f_globals.get(node.id, UNTOLD))
    if isinstance(node, (ast.Tuple, ast.List)):
        parts = [_value_of(one, caller) for one in node.elts]
        told = not any(one is UNTOLD for one in parts)
        return (tuple(parts) if isinstance(node, ast.Tuple) else parts) if told else UNTOLD
    if isinstance(node, ast.Slice):
        ends = [one and _value_of(one, caller) for one in (node.lower, node.upper, node.step)]
        return UNTOLD if any(one is UNTOLD for one in ends) else slice(*ends)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value_of(node.operand, caller)
        return -number if type(number) is int else UNTOLD
    if isinstance(node, ast.Attribute):
        return _held_by(_value_of(node.value, caller), node.attr)
    if isinstance(node, ast.Subscript):
        return _item_of(_value_of(node.value, caller), _value_of(node.slice, caller))
    return UNTOLD


def _held_by(owner: Any, name: str) -> Any:
    """An attribute that the object itself has: none that a class computes."""
    held = getattr(owner, "__dict__", {})
    computed = hasattr(getattr(type(owner), name, None), "__set__")
    return UNTOLD if owner is UNTOLD or computed else held.get(name, UNTOLD)


def _item_of(held: Any, key: Any) -> Any:
    """What a plain dict has under a text, a plain list or tuple at a place, an array or a tensor at
    places."""
    if type(held) in (np.ndarray, Tensor) and _are_places(key):
        return held[key]
    if type(held) is dict and isinstance(key, str):
        return held.get(key, UNTOLD)
    inside = type(held) in (list, tuple) and type(key) is int and -len(held) <= key < len(held)
    return held[key] if inside else UNTOLD


def _are_places(key: Any) -> bool:
    if isinstance(key, slice):
        return all(one is None or type(one) is int for one in (key.start, key.stop, key.step))
    if isinstance(key, (tuple, list)):
        return all(map(_are_places, key))
    return type(key) is int or key is Ellipsis


def _caller(frame: FrameType) -> FrameType | None:
    """Who called, behind what hands its arguments on as they are: a module's call, torch's
    decorators."""
    caller = frame.f_back
    while caller is not None and caller.f_code.co_filename in _HANDING_ON:
        caller = caller.f_back
    return caller


def call_at(caller: FrameType) -> ast.Call | None:
    """The call that the frame is in, as its file has it."""
    return _call_in(caller.f_code, caller.f_lasti)


@cache
def _call_in(code: CodeType, instruction: int) -> ast.Call | None:
    at = next(islice(code.co_positions(), instruction // 2, None), None)
    tree = parsed(code.co_filename)
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


def as_given(frame: FrameType) -> tuple[dict[str, Any], Any] | None:
    """The arguments as the caller handed them over, and whose method got them; None where that
    cannot be told."""
    arguments = frame_arguments(frame)
    owner = owner_of(frame.f_code, arguments)
    for name in bound_anew(frame, arguments):
        arguments[name] = given_by_caller(frame, name, bound=owner is not None)
        if arguments[name] is UNTOLD:
            return None
        owner = owner_of(frame.f_code, arguments)
    return arguments, owner
