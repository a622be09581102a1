"""What a function does behind the statement in it that steps an env, where another one trains."""

from __future__ import annotations

import ast
import builtins
import copy
import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType, MappingProxyType
from typing import Any

from rnncheck.watching.seams.arguments import function_at, parsed
from rnncheck.watching.seams.layouts import lays_data_out
from rnncheck.watching.seams.reads import read_first, stored_by


@dataclass(frozen=True)
class LinesTail:
    """Its statements, in which what it was ``given`` is named as by who called it; ``known`` are
    names of another module that they read, as they are there."""

    body: list[ast.stmt] = field(default_factory=list)
    known: dict[str, Any] = field(default_factory=dict)
    given: tuple[tuple[str, str], ...] = ()


NO_TAIL = LinesTail()
_WITHOUT_GRAPH = ("no_grad", "inference_mode")


def tail_again(
    frame: FrameType,
    inner: FrameType,
    at: int,
    call: ast.stmt,
    body: list[ast.stmt],
    kept: Collection[str] = (),
) -> LinesTail:
    """What ``inner``, which the frame's statement ``call`` called, did behind the line ``at``, to
    be done ahead of the ``body``. None of it where its variables, which the frame has as it
    returned, may be others by then, unless they are ``kept`` as they were and returned under the
    same names, or are others under names of the calling frame."""
    tree = parsed(inner.f_code.co_filename)
    if tree is None or inner.f_code is frame.f_code:
        return NO_TAIL
    first_line, returned = inner.f_code.co_firstlineno, _returned_as(tree, inner, frame, call)
    returned = {
        name: outer
        for name, outer in returned.items()
        if name not in stored_by(tail_of(tree, first_line, at, call))
    }
    as_it_is = tail_of(tree, first_line, at, call, returned)
    given = _given(inner, frame, call, stored_by(as_it_is)) | returned
    given |= _aliases(body_of(tree, first_line), inner, given)
    tail = named_outside(as_it_is, given)
    bound, first = stored_by([call]), read_first(tail)
    outside = {name for text in given.values() for name in names_in([ast.parse(text).body[0]])}
    if (outside - given.keys()) & names_in(as_it_is):  # one variable of each goes by that name
        return NO_TAIL
    shared = (first & names_in(body)) - bound - outside
    theirs = ((inner.f_locals.get(name), frame.f_locals.get(name)) for name in shared)
    at_last = stored_by(tail[-1:]) - stored_by(tail[:-1])  # as the call binds what is returned
    told = (bound & (_returned(tree, inner) | at_last)) | (set(kept) - frame.f_locals.keys())
    anew = (first & stored_by(tail)) - (set(kept) & told)
    if anew or any(one is not other for one, other in theirs):
        return NO_TAIL
    if (stored_by(tail) & read_first(body)) - bound:  # to the body it is another variable
        return NO_TAIL
    known = _known(names_in(tail) - outside, inner, frame)
    if (known.keys() & stored_by(tail)) or not _is_same_there(known, frame, body):
        return NO_TAIL
    return LinesTail(tail, known, tuple(given.items()))


def _given(inner: FrameType, frame: FrameType, call: ast.stmt, bound: set[str]) -> dict[str, str]:
    """By argument of the inner function the name or attribute that was handed to it."""
    made = call.value if isinstance(call, (ast.Assign, ast.Expr)) else None
    if not isinstance(made, ast.Call):
        return {}
    code = inner.f_code
    names = code.co_varnames[: code.co_argcount]
    own = [made.func.value] if isinstance(made.func, ast.Attribute) else []
    method = bool(own and names) and _held_at(frame, own[0]) is inner.f_locals.get(names[0])
    places = [*(own if method else []), *made.args]
    told = [*zip(names, places, strict=False), *((one.arg, one.value) for one in made.keywords)]
    return {
        name: ast.unparse(place)
        for name, place in told
        if name is not None
        and name not in bound
        and (value := _held_at(frame, place)) is not None
        and value is inner.f_locals.get(name)
    }


def _aliases(body: list[ast.stmt], inner: FrameType, given: Mapping[str, str]) -> dict[str, str]:
    """The same of its own names of attributes of these: ``b = self.buffer``."""
    found = dict[str, str]()
    for one in body:
        value = one.value if isinstance(one, ast.Assign) and len(one.targets) == 1 else None
        name = one.targets[0] if isinstance(one, ast.Assign) else None
        if not isinstance(name, ast.Name) or not isinstance(value, ast.Attribute):
            continue
        held = _held_at(inner, value)
        if held is not None and held is inner.f_locals.get(name.id) and _root(value) in given:
            found[name.id] = ast.unparse(_Renamed(given).visit(copy.deepcopy(value)))
    return found


def _root(place: ast.expr) -> str:
    while isinstance(place, ast.Attribute):
        place = place.value
    return place.id if isinstance(place, ast.Name) else ""


def _held_at(frame: FrameType, place: ast.expr) -> Any:
    """What a name, or an attribute of an instance's own, holds; None for all else."""
    if isinstance(place, ast.Name):
        return frame.f_locals.get(place.id, frame.f_globals.get(place.id))
    if isinstance(place, ast.Attribute):
        return getattr(_held_at(frame, place.value), "__dict__", {}).get(place.attr)
    return None


class _Renamed(ast.NodeTransformer):
    """Puts expressions in the place of names."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """As ``ast`` calls it."""
        text = self._given.get(node.id)
        if text is None or text == node.id:
            return node
        made = ast.parse(text, mode="eval").body
        return ast.copy_location(made, node)


def named_outside(tail: list[ast.stmt], given: Mapping[str, str]) -> list[ast.stmt]:
    """The statements with what the function was given as its caller names it."""
    if all(name == text for name, text in given.items()):
        return tail
    return [_Renamed(given).visit(copy.deepcopy(one)) for one in tail]


def _known(read: set[str], inner: FrameType, frame: FrameType) -> dict[str, Any]:
    if inner.f_globals is frame.f_globals:
        return {}
    read, theirs = read - inner.f_locals.keys(), inner.f_globals
    return {n: theirs[n] for n in sorted(read) if n in theirs and n not in vars(builtins)}


def _is_same_there(known: dict[str, Any], frame: FrameType, body: list[ast.stmt]) -> bool:
    """Whether what the body means by these names is the same."""
    own, nothing = {**frame.f_globals, **frame.f_locals}, object()
    return all(own.get(name, nothing) is known[name] for name in known.keys() & names_in(body))


def tail_of(
    tree: ast.Module,
    first: int,
    line: int,
    call: ast.stmt,
    returned: Mapping[str, str] = MappingProxyType({}),
) -> list[ast.stmt]:
    """What the function that begins in the line ``first`` does behind the statement of its own that
    holds ``line``; what it returns is bound as the statement that is its ``call`` binds it, but for
    variables that go by other names there, as they are ``returned``. None of it where it returns
    from within."""
    body = body_of(tree, first)
    around = [n for n, one in enumerate(body) if holds_line(one, line)]
    if not around:
        return []
    rest = [*behind_inside(body[around[-1]], line), *body[around[-1] + 1 :]]
    last = rest[-1] if rest else None
    if isinstance(last, ast.Return):
        value, rest = last.value, rest[:-1]
        if isinstance(call, ast.Assign) and isinstance(call.value, ast.Call) and value is not None:
            bound = _bound(call.targets, value, returned)
            rest += [ast.copy_location(one, call) for one in bound]
        elif not isinstance(call, ast.Expr) or not isinstance(call.value, ast.Call):
            return []
    leaves = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await)
    inside = (node for one in rest for node in ast.walk(one))
    if any(isinstance(node, leaves) for node in inside):
        return []
    for decorator in decorators_of(tree, first) if rest else ():
        rest = _in_its_place(decorator, rest)
    return rest


def _returned(tree: ast.Module, inner: FrameType) -> set[str]:
    """Variables that the function returns by name."""
    body = body_of(tree, inner.f_code.co_firstlineno)
    value = body[-1].value if body and isinstance(body[-1], ast.Return) else None
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return {one.id for one in parts if isinstance(one, ast.Name)}


def _returned_as(
    tree: ast.Module, inner: FrameType, frame: FrameType, call: ast.stmt
) -> dict[str, str]:
    """By variable of the function the caller's that it is returned to by another name, and that
    holds the same now."""
    body = body_of(tree, inner.f_code.co_firstlineno)
    value = body[-1].value if body and isinstance(body[-1], ast.Return) else None
    if not isinstance(call, ast.Assign) or not isinstance(call.value, ast.Call) or value is None:
        return {}
    own, theirs = inner.f_locals, frame.f_locals
    return {
        of.id: to.id
        for to, of in _pairs(call.targets[0], value)
        if isinstance(to, ast.Name) and isinstance(of, ast.Name) and to.id != of.id
        and own.get(of.id) is not None and own.get(of.id) is theirs.get(to.id)
    }  # fmt: skip


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return [(target, value)]
    if any(isinstance(one, ast.Starred) for one in (*target.elts, *value.elts)):
        return [(target, value)]
    return list(zip(target.elts, value.elts, strict=False))


def _bound(
    targets: list[ast.expr], value: ast.expr, returned: Mapping[str, str]
) -> Iterator[ast.stmt]:
    """What is returned, bound as the call binds it; what goes by the same name, or by the name that
    it is ``returned`` to, is as it is."""
    pairs = _pairs(targets[0], value)
    left = [(to, of) for to, of in pairs if not _is_same_name(to, of, returned)]
    if len(targets) > 1 or len(left) == len(pairs):
        yield ast.Assign(targets=targets, value=value)
    elif left:
        to = ast.Tuple([one for one, _ in left], ast.Store())
        yield ast.Assign(targets=[to], value=ast.Tuple([one for _, one in left], ast.Load()))


def _is_same_name(target: ast.expr, value: ast.expr, returned: Mapping[str, str]) -> bool:
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Name):
        return False
    return target.id in (value.id, returned.get(value.id))


def _in_its_place(decorator: ast.expr, body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements without a graph, where it is that which the decorator sees to."""
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    if getattr(named, "attr", getattr(named, "id", "")) not in _WITHOUT_GRAPH:
        return body
    called = ast.Call(func=named, args=[], keywords=[])
    item = ast.withitem(context_expr=ast.copy_location(called, body[0]))
    return _grouped(ast.copy_location(ast.With(items=[item], body=body), body[0]), body)


def behind_inside(statement: ast.stmt, line: int) -> list[ast.stmt]:
    """What a ``with`` that binds no name does behind the statement in it that holds the line."""
    if not isinstance(statement, ast.With) or any(one.optional_vars for one in statement.items):
        return []
    around = [n for n, one in enumerate(statement.body) if holds_line(one, line)]
    if not around:
        return []
    rest = statement.body[around[-1] + 1 :]
    return _grouped(statement, [*behind_inside(statement.body[around[-1]], line), *rest])


def _grouped(statement: ast.With, inner: list[ast.stmt]) -> list[ast.stmt]:
    """The statements in the ``with``, without those that lay data out alone."""
    groups = itertools.groupby(inner, key=lays_data_out)
    return [
        one
        for alone, body in groups
        for one in (body if alone else [with_body(statement, list(body))])
    ]


def with_body(statement: ast.With | ast.AsyncWith, body: list[ast.stmt]) -> ast.stmt:
    """The same around other statements."""
    kept = copy.copy(statement)
    kept.body = body
    return kept


def body_of(tree: ast.Module, first: int) -> list[ast.stmt]:
    """Of the function that begins in the line ``first``, with its decorators."""
    made = function_at(tree, first)
    return [] if made is None else made.body


def decorators_of(tree: ast.Module, first: int) -> list[ast.expr]:
    """Of the same function."""
    made = function_at(tree, first)
    return [] if made is None else made.decorator_list


def holds_line(statement: ast.stmt, line: int) -> bool:
    return statement.lineno <= line <= (statement.end_lineno or statement.lineno)


def bodies_of(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        inner = getattr(statement, name, None)
        if isinstance(inner, list):
            yield inner
    for handler in getattr(statement, "handlers", ()):
        yield handler.body


def names_in(body: list[ast.stmt]) -> set[str]:
    """That the statements mention."""
    nodes = [node for one in body for node in ast.walk(one)]
    return {node.id for node in nodes if isinstance(node, ast.Name)}
