"""The lines of a script behind those in which it draws a batch out of a memory of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.watching.forms.plain_calls import ToldCall
from rnncheck.watching.forms.sampled import sampled_batch
from rnncheck.watching.forms.sampled_parts import SampledBatch
from rnncheck.watching.seams.arguments import parsed
from rnncheck.watching.seams.earlier_names import EarlierNames
from rnncheck.watching.seams.lines import (
    LinesBehind,
    bound_by,
    lines_behind,
    lines_inside,
    loads_of,
)
from rnncheck.watching.seams.tails import bodies_of, holds_line

_DATA = (Tensor, np.ndarray)
_LOST = object()  # what a variable held that the lines have bound anew


def sampled_lines(
    stack: Sequence[FrameType], whole: TensorDictBase, told: ToldCall, earlier: EarlierNames
) -> tuple[FrameType, LinesBehind, SampledBatch] | None:
    """The innermost frame that holds a batch of the steps ``whole``, and what it does with it up to
    its present line: with what its variables were ``earlier`` where it has bound them anew."""
    for frame in stack:
        found = sampled_batch(frame.f_locals, whole, told)
        lines = None if found is None else _lines(frame, found, earlier.of(frame))
        if found is None or lines is None:
            continue
        _put_back(lines, earlier.of(frame))
        held = {**frame.f_locals, **(lines.function.__kwdefaults__ or {})}
        read = lines.reads | {found.observed[0]}  # which these may read parts of alone
        given = sampled_batch({n: held[n] for n in held if n in read}, whole, told)
        return None if given is None else (frame, lines, given)
    return None


def _put_back(lines: LinesBehind, earlier: Mapping[str, Any]) -> None:
    """What the lines read of data before they bind it anew is what it was."""
    held = lines.function.__kwdefaults__ or {}
    anew = {name for name in lines.reads & lines.stores & earlier.keys() if name in held}
    data = {name: earlier[name] for name in anew if isinstance(earlier[name], _DATA)}
    lines.function.__kwdefaults__ = {**held, **data}


def _lines(frame: FrameType, found: SampledBatch, earlier: Mapping[str, Any]) -> LinesBehind | None:
    tree = parsed(frame.f_code.co_filename)
    names = found.names | _stored_states(frame, found)
    names = frozenset(n for n in names if not _is_made_by_networks(frame.f_locals.get(n)))
    bound = None if tree is None else _binding(tree.body, frame.f_lineno, names, found.cut)
    for line in bound or ():
        lines = lines_behind(frame, line)
        if lines is None or _has_a_graph(lines):
            continue
        anew = lines.reads & lines.stores & found.cut
        if all(earlier.get(name, _LOST) is not frame.f_locals.get(name, _LOST) for name in anew):
            return lines
    if bound is not None:
        return None
    code = frame.f_code
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return lines_inside(frame) if found.names & set(given) else None


def _stored_states(frame: FrameType, found: SampledBatch) -> frozenset[str]:
    """Variables with the states that the rows begin with, which no network made of something: they
    were stored, as the rest of the batch was."""
    tree, seen = parsed(frame.f_code.co_filename), {**frame.f_globals, **frame.f_locals}
    around = () if tree is None else _around(tree.body, frame.f_lineno)
    made = {
        name
        for block in around
        for one in block
        if any(_is_of_a_network(node, seen) for node in ast.walk(one))
        for name in bound_by(one)
    }
    return found.openings - made


def _is_of_a_network(node: ast.AST, seen: Mapping[str, Any]) -> bool:
    """Whether it calls one, or a method of one."""
    named = node.func if isinstance(node, ast.Call) else None
    while named is not None:
        if isinstance(_looked_up(named, seen), nn.Module):
            return True
        named = named.value if isinstance(named, ast.Attribute) else None
    return False


def _looked_up(named: ast.expr, seen: Mapping[str, Any]) -> Any:
    """A variable, or what an object holds as an attribute; None for what would be computed."""
    if isinstance(named, ast.Name):
        return seen.get(named.id)
    if not isinstance(named, ast.Attribute):
        return None
    held = getattr(_looked_up(named.value, seen), "__dict__", {})
    return {**held, **held.get("_modules", {})}.get(named.attr)


def _is_made_by_networks(value: Any) -> bool:
    """Whether it has a graph: what networks give may be what acting gave."""
    return isinstance(value, Tensor) and value.grad_fn is not None


def _has_a_graph(lines: LinesBehind) -> bool:
    """Whether they go on with what networks gave ahead of them."""
    held = lines.function.__kwdefaults__ or {}
    values = (held.get(name) for name in lines.reads)
    return any(map(_is_made_by_networks, values))


def _binding(
    body: list[ast.stmt], line: int, names: frozenset[str], cut: frozenset[str]
) -> tuple[int, ...] | None:
    """Lines of statements ahead of ``line``, in the innermost block that has one: of the last that
    binds one of ``names``, be it anew, of the last that binds one to what is not made of others of
    them, or fills one with something, and of those that make one that is ``cut`` of them, the last
    first."""
    found, last, parted = 0, 0, list[int]()
    for block in _around(body, line):
        known = set[str]()
        for one in block:
            filled = _filled_by(one) & names & known
            bound = set() if _is_empty(one) else (set(bound_by(one)) & names) | filled
            fresh = bool(filled) or not loads_of(one) & known
            if bound and fresh:
                found = one.lineno
            if bound and (fresh or bound & loads_of(one)):
                last = one.lineno
            if set(bound_by(one)) & cut and loads_of(one) & known:
                parted.append(one.lineno)
            known |= bound | (set(bound_by(one)) & cut)
        if known:
            later = (one for one in reversed(parted) if one > last)
            return tuple(dict.fromkeys((last, found, *later))) if found else None
    return None


def _filled_by(statement: ast.stmt) -> set[str]:
    """The variables that it puts something into, at some of their places."""
    stored = (one for one in ast.walk(statement) if isinstance(one, ast.Subscript))
    into = (one.value for one in stored if isinstance(one.ctx, ast.Store))
    return {one.id for one in into if isinstance(one, ast.Name)}


def _is_empty(statement: ast.stmt) -> bool:
    """Whether it binds lists that something is put into behind it."""
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(isinstance(one, ast.List) and not one.elts for one in parts)


def _around(body: list[ast.stmt], line: int) -> Iterator[list[ast.stmt]]:
    """What stands ahead of the line in each block that has it, innermost first; of one function."""
    at = next((n for n, one in enumerate(body) if holds_line(one, line)), None)
    if at is None:
        return
    for inner in bodies_of(body[at]):
        yield from _around(inner, line)
    if not isinstance(body[at], (ast.FunctionDef, ast.ClassDef)):
        yield body[:at]
