"""The lines of a user's loop from where a batch is there to where ``backward`` is called, as a
function of the batch."""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import (
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    ModuleType,
)
from typing import Any

from gymnasium.vector import AsyncVectorEnv

from rnncheck.watching.seams.arguments import parsed
from rnncheck.watching.seams.begun_empty import begun_empty
from rnncheck.watching.seams.epochs import of_one_epoch
from rnncheck.watching.seams.nowhere import Nowhere, SpacesOf, writes_records
from rnncheck.watching.seams.reads import read_first, stored_by
from rnncheck.watching.seams.tails import (
    NO_TAIL,
    LinesTail,
    behind_inside,
    bodies_of,
    body_of,
    holds_line,
    named_outside,
    names_in,
    tail_again,
    tail_of,
    with_body,
)

_NAME = "training_step"
_NO_BATCH = "_batch"  # what is given in the place of a batch by those who have none
_DEFINED = (ModuleType, FunctionType, type)
_AROUND = "__rnncheck_lines__"


@dataclass(frozen=True)
class Lines:
    """The function, the name that the batch has in it, and its statements."""

    function: Callable[..., Any]
    batch: str
    body: Sequence[ast.stmt] = ()


@dataclass(frozen=True)
class LinesBehind:
    """The same of no batch; ``reads`` are the names that it reads as they were before, ``stepped``
    those that the statement ahead of it binds, ``appended`` lists that it makes longer by one, by
    the way there, ``stores`` those that it binds itself. Of those that were ``empty`` where it
    begins what they were."""

    function: FunctionType
    reads: frozenset[str]
    stepped: frozenset[str]
    appended: frozenset[tuple[str, ...]]
    stores: frozenset[str]
    empty: Mapping[str, type] = field(default_factory=dict)


@dataclass(frozen=True)
class LinesAround:
    """Where the lines of a function that was made of them are: the last of them, and the names
    that a batch may have there; with ``behind`` those behind that line, of no batch; ``anew`` are
    all of a loop that binds the batch's name anew. ``inside``: ahead of them those of the function
    that begins in the one line, behind the other one, of the module named, or of the same; these
    names are ``known`` from there, and those were ``given`` by its caller. ``since``: behind the
    last that binds the batch ahead of that line. ``without``: so many of the first statements."""

    line: int
    names: tuple[str, ...]
    behind: int | None = None
    anew: bool = False
    inside: tuple[int, int, str] | None = None
    since: int | None = None
    without: int = 0
    known: tuple[str, ...] = ()
    given: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Block:
    """Statements up to the one that holds the line, behind those that bind a batch's name."""

    batch: str
    body: list[ast.stmt]
    whole: bool = False  # what it only reads is an argument as well
    made_by: ast.stmt | None = None  # what binds the batch ahead of it, in the same block


def lines_between(
    frame: FrameType, names: set[str], since: int | None = None, without: int = 0
) -> Lines | None:
    """What the frame does with the batch of one of ``names`` up to its present line; with what the
    name held in the line ``since``, if that is given, or ``without`` so many statements."""
    tree = parsed(frame.f_code.co_filename)
    found = None if tree is None else _block(tree.body, frame.f_lineno, names, since)
    if found is None:
        return None
    found = replace(found, body=found.body[without:])
    function = _function(found, frame) if found.body else None
    if function is None:
        return None
    around = LinesAround(frame.f_lineno, tuple(sorted(names)), since=since, without=without)
    setattr(function, _AROUND, around)
    return Lines(function, found.batch, found.body)


def lines_of_a_round(frame: FrameType, names: set[str]) -> Lines | None:
    """What the frame does with what a loop gives it under one of ``names``, up to its present line,
    where the loop makes another batch of that under the same name."""
    tree = parsed(frame.f_code.co_filename)
    found = None if tree is None else _round(tree.body, frame.f_lineno, names)
    function = None if found is None else _function(found, frame)
    if found is None or function is None:
        return None
    setattr(function, _AROUND, LinesAround(frame.f_lineno, tuple(sorted(names)), anew=True))
    return Lines(function, found.batch)


def lines_behind(
    frame: FrameType,
    line: int,
    stepping: tuple[FrameType, int] | None = None,
    kept: Collection[str] = (),
) -> LinesBehind | None:
    """What the frame does behind the statement that holds ``line``, up to its present one, in the
    innermost block that has both; ahead of it what the function that it called there did behind the
    line that it was ``stepping`` in, where that can be done again. Variables of that function that
    are ``kept`` are known as they were there, whatever it has bound them to since."""
    tree = parsed(frame.f_code.co_filename)
    found = [] if tree is None else _between(tree.body, line, frame.f_lineno)
    if tree is None or not found:
        return None
    ahead, *body = found
    tail = LinesTail() if stepping is None else tail_again(frame, *stepping, ahead, body, kept)
    stepped = frozenset(stored_by([ahead]))
    inside = stepping if tail.body else None
    made = _behind([*tail.body, *body], frame, line, stepped, inside, tail)
    empty = begun_empty(tree, line, frame.f_lineno)
    return made and _from_empty(made, {n: empty[n] for n in empty.keys() - names_in(tail.body)})


def _from_empty(lines: LinesBehind, empty: Mapping[str, type]) -> LinesBehind:
    """They begin with these names as they were, empty."""
    held = lines.function.__kwdefaults__ or {}
    own = {name: kind for name, kind in empty.items() if name in lines.reads and name in held}
    lines.function.__kwdefaults__ = {**held, **{name: kind() for name, kind in own.items()}}
    return replace(lines, empty=own)


def lines_inside(frame: FrameType) -> LinesBehind | None:
    """What the function of the frame does up to its present line, with what it was given."""
    tree, first = parsed(frame.f_code.co_filename), frame.f_code.co_firstlineno
    body = [] if tree is None else body_of(tree, first)
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
    ahead = _up_to(body, frame.f_lineno)
    return _behind(ahead, frame, first, frozenset(names)) if ahead else None


def counts_itself(frame: FrameType) -> bool:
    """Whether lines of the function, up to its present one, count on what an object holds: called
    again they may not come so far."""
    tree, first = parsed(frame.f_code.co_filename), frame.f_code.co_firstlineno
    body = [] if tree is None else body_of(tree, first)
    nodes = (node for one in _up_to(body, frame.f_lineno) for node in ast.walk(one))
    return any(isinstance(o, ast.AugAssign) and isinstance(o.target, ast.Attribute) for o in nodes)


def _behind(
    body: list[ast.stmt],
    frame: FrameType,
    line: int,
    stepped: frozenset[str],
    stepping: tuple[FrameType, int] | None = None,
    tail: LinesTail = NO_TAIL,
) -> LinesBehind | None:
    inner, inside = None, None
    if stepping is not None:
        inner, at = stepping
        other = inner.f_globals is not frame.f_globals
        name = str(inner.f_globals["__name__"]) if other else ""
        inside = inner.f_code.co_firstlineno, at, name
    function = _function(Block(_NO_BATCH, body, whole=True), frame, inner, tail.known)
    if function is None:
        return None
    known, given = tuple(tail.known), tail.given
    around = LinesAround(frame.f_lineno, (), line, inside=inside, known=known, given=given)
    setattr(function, _AROUND, around)
    reads = frozenset(read_first(body)) - tail.known.keys()
    appended = frozenset(_appended(body))
    return LinesBehind(function, reads, stepped, appended, frozenset(stored_by(body)))


def _appended(body: list[ast.stmt]) -> Iterator[tuple[str, ...]]:
    """Variables, or attributes of objects, that ``x.append(…)`` is called on, in no loop."""
    for one in body:
        call = one.value if isinstance(one, ast.Expr) else None
        to = call.func if isinstance(call, ast.Call) else None
        if isinstance(to, ast.Attribute) and to.attr == "append" and (way := _way(to.value)):
            yield way
        if isinstance(one, (ast.If, ast.With, ast.Try)):
            yield from _appended([item for inner in bodies_of(one) for item in inner])


def _way(place: ast.expr) -> tuple[str, ...]:
    """To an attribute of what a variable holds, from its name on; empty for anything else."""
    if isinstance(place, ast.Attribute):
        return (*way, place.attr) if (way := _way(place.value)) else ()
    return (place.id,) if isinstance(place, ast.Name) else ()


def _between(body: list[ast.stmt], line: int, until: int) -> list[ast.stmt]:
    """From the statement that holds ``line`` to the one that holds ``until``."""
    begins = [n for n, one in enumerate(body) if holds_line(one, line)]  # several may share a line
    ends = [n for n, one in enumerate(body) if holds_line(one, until)]
    if not begins or not ends:
        return []
    first, last = begins[-1], ends[-1]
    if first < last:
        inside = behind_inside(body[first], line)
        return [body[first], *inside, *body[first + 1 : last], _cut(body[last], until)]
    inner = (_between(one, line, until) for one in bodies_of(body[first])) if first == last else ()
    return next((found for found in inner if found), [])


def _cut(statement: ast.stmt, until: int) -> ast.stmt:
    """The statement; an ``if`` that holds the line ``until`` without what it does behind that."""
    if not isinstance(statement, ast.If) or not any(holds_line(o, until) for o in statement.body):
        return statement
    kept = copy.copy(statement)
    ahead = _up_to(statement.body, until)
    kept.body = [*ahead[:-1], _cut(ahead[-1], until)]
    return kept


def _function(
    block: Block,
    frame: FrameType,
    inner: FrameType | None = None,
    known: Mapping[str, Any] = MappingProxyType({}),
) -> FunctionType | None:
    """A function whose other names are what they are in the frame now, or in the ``inner`` one, or
    what they are ``known`` to be."""
    held = ({} if inner is None else _held(block, inner)) | _held(block, frame) | dict(known)
    made = compiled_lines(block, frame.f_code.co_filename, list(held))
    if made is None:
        return None
    function = FunctionType(made, frame.f_globals, _NAME)
    function.__kwdefaults__ = held
    return function


def around_of(function: FunctionType) -> LinesAround | None:
    """Where its lines are, for a function that was made of them."""
    found = getattr(function, _AROUND, None)
    return found if isinstance(found, LinesAround) else None


def lines_again(path: str, around: LinesAround, held: list[str]) -> CodeType | None:
    """The code of such a function, of the file as it is now."""
    tree = parsed(path)
    if tree is None:
        return None
    if around.anew:
        found = _round(tree.body, around.line, set(around.names))
    elif around.behind is None:
        found = _block(tree.body, around.line, set(around.names), around.since)
        found = found and replace(found, body=found.body[around.without :])
    else:
        ahead, *body = _between(tree.body, around.behind, around.line) or [ast.Pass()]
        if around.inside is not None:
            first, at, module = around.inside
            theirs = parsed(str(sys.modules[module].__file__)) if module else tree
            tail = tail_of(theirs, first, at, ahead) if theirs else []
            body = [*named_outside(tail, dict(around.given)), *body]
        body = body or _up_to(body_of(tree, around.behind), around.line)
        found = Block(_NO_BATCH, body, whole=True) if body else None
    return None if found is None else compiled_lines(found, path, held)


def _block(
    body: list[ast.stmt], line: int, names: set[str], since: int | None = None
) -> Block | None:
    """The innermost block around the line in which one of ``names`` is bound, for the last time
    ahead of the line ``since``; where it is made of what the loop around it is given, all of that
    loop's lines."""
    around = [n for n, one in enumerate(body) if holds_line(one, line)]  # several may share a line
    if not around:
        return None
    statement = body[around[-1]]
    bound = [name for name in _targets(statement) if name in names]
    for inner in bodies_of(statement):
        if found := _block(inner, line, names, since):
            made = found.made_by if found.made_by in inner else None
            anew = not bound or bound[0] == found.batch  # under its own name: it is that one
            if made is None or anew or bound[0] not in loads_of(made):
                return found
    if isinstance(statement, ast.For) and bound and line >= statement.body[0].lineno:
        return Block(bound[0], _up_to(statement.body, line))
    ahead = body[: around[-1]]
    for index, one in enumerate(ahead):
        later = ahead[index + 1 :]
        again = _afresh(later) if since is None else _bound_ahead(later, since)
        if bound := [name for name in bound_by(one) if name in names - again]:
            rest = _rest_of(one, bound[0])
            return Block(bound[0], [*rest, *body[index + 1 : around[-1] + 1]], made_by=one)
    return None


def _afresh(body: list[ast.stmt]) -> set[str]:
    """Names that are bound to what is not made of what they were bound to."""
    return {name for one in body for name in bound_by(one) if name not in loads_of(one)}


def _bound_ahead(body: list[ast.stmt], line: int) -> set[str]:
    """Names that are bound ahead of the line, in a ``with`` around it as well."""
    found = set[str]()
    for one in body:
        if (one.end_lineno or one.lineno) < line:
            found |= set(bound_by(one))
        elif isinstance(one, (ast.With, ast.AsyncWith)) and one.lineno < line:
            found |= _bound_ahead(one.body, line)
    return found


def _round(body: list[ast.stmt], line: int, names: set[str]) -> Block | None:
    """The outermost loop around the line that makes what it gives another under the same name."""
    around = [one for one in body if holds_line(one, line)]
    if not around:
        return None
    statement = around[-1]
    for name in sorted(set(_targets(statement)) & names):
        ahead = _up_to(statement.body, line) if isinstance(statement, ast.For) else []
        if any(name in bound_by(one) and name in loads_of(one) for one in ahead):
            return Block(name, ahead)
    inner = (_round(one, line, names) for one in bodies_of(statement))
    return next((found for found in inner if found is not None), None)


def _targets(statement: ast.stmt) -> list[str]:
    """What a ``for`` binds anew in each round."""
    return list(_bound(statement.target)) if isinstance(statement, ast.For) else []


def _rest_of(statement: ast.stmt, name: str) -> list[ast.stmt]:
    """What a ``with`` does behind the line in it that binds the name."""
    if not isinstance(statement, (ast.With, ast.AsyncWith)):
        return []
    at = next(n for n, one in enumerate(statement.body) if name in bound_by(one))
    inner = [*_rest_of(statement.body[at], name), *statement.body[at + 1 :]]
    return [with_body(statement, inner)] if inner else []


def _up_to(body: list[ast.stmt], line: int) -> list[ast.stmt]:
    return [one for one in body if one.lineno <= line]


def bound_by(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _bound(target)
    elif isinstance(statement, ast.AnnAssign):
        yield from _bound(statement.target)
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        for one in statement.body:
            yield from bound_by(one)


def _bound(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for one in target.elts:
            yield from _bound(one)


def _held(block: Block, frame: FrameType) -> dict[str, Any]:
    """What the block reads of the frame before it binds the name itself; of a whole one all that
    it mentions. What it writes records to is nowhere."""
    if block.whole:
        read = names_in(block.body) - {block.batch}
    else:
        read = _read(block.body) - {block.batch}
        if frame.f_locals is frame.f_globals:  # a script's own lines: what is only read is global
            read &= stored_by(block.body)
    seen = {**frame.f_globals, **frame.f_locals}
    silent = {name for name in names_in(block.body) & seen.keys() if writes_records(seen[name])}
    spent = {name for name in read if isinstance(frame.f_locals.get(name), GeneratorType)}
    read -= spent - read_first(block.body)  # which the block makes itself, and no copy can be of
    held = {name: value for name, value in frame.f_locals.items() if name in read}
    if frame.f_locals is frame.f_globals:  # what is defined is there later on as well
        held = {name: value for name, value in held.items() if not isinstance(value, _DEFINED)}
    held |= {name: SpacesOf(one) for name, one in held.items() if isinstance(one, AsyncVectorEnv)}
    return held | {name: Nowhere() for name in silent - {block.batch}}


def _read(body: list[ast.stmt]) -> set[str]:
    """The names that are not surely bound by a statement of the body before it mentions them."""
    read, bound = set[str](), set[str]()
    for one in body:
        assigned = set(bound_by(one))
        loaded = loads_of(one)
        read |= (names_in([one]) - assigned | loaded) - bound
        bound |= assigned
    return read


def loads_of(statement: ast.AST) -> set[str]:
    nodes = ast.walk(statement)
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def compiled_lines(block: Block, path: str, held: list[str]) -> CodeType | None:
    """The code of a function of the batch that gets the names ``held`` as they were."""
    once = ast.For(
        target=ast.Name(id="_", ctx=ast.Store()),
        iter=ast.Tuple(elts=[ast.Constant(value=0)], ctx=ast.Load()),
        body=of_one_epoch(list(block.body)),
        orelse=[],
    )  # so that `continue` means what it meant
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(arg=block.batch)],
        kwonlyargs=[ast.arg(arg=name) for name in held],
        kw_defaults=[ast.Constant(value=None) for _ in held],
        defaults=[],
    )
    return compiled_function(_NAME, arguments, [once], path)


def compiled_function(
    name: str, arguments: ast.arguments, body: list[ast.stmt], path: str
) -> CodeType | None:
    """The code of a function of the file's statements; None where they only stand inside their own
    function or loop, such as ``yield`` and ``break``."""
    nodes = (node for one in body for node in ast.walk(one))
    placed = [n.lineno for n in nodes if isinstance(n, ast.stmt) and hasattr(n, "lineno")]
    if not placed:  # nothing of theirs
        return None
    first = min(placed)
    made = ast.FunctionDef(name=name, args=arguments, body=body, decorator_list=[])
    module = ast.Module(body=[made], type_ignores=[])
    for node in ast.walk(module):
        if isinstance(node, (ast.stmt, ast.expr, ast.arg)) and not hasattr(node, "lineno"):
            node.lineno = node.end_lineno = first
            node.col_offset = node.end_col_offset = 0
    try:
        whole = compile(module, path, "exec")
    except (SyntaxError, ValueError):
        return None
    return next(one for one in whole.co_consts if isinstance(one, CodeType))
