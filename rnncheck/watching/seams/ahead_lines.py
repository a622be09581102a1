"""The lines ahead of a place in a script that may have made a batch what it is there, each way as a
function of the batch that they began with."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from torch import nn
from torchrl.data import ReplayBuffer

from rnncheck.watching.seams.arguments import parsed
from rnncheck.watching.seams.frames import frame_arguments
from rnncheck.watching.seams.lines import Block, bound_by, compiled_lines
from rnncheck.watching.seams.nowhere import Nowhere, writes_records
from rnncheck.watching.seams.reads import read_first, stored_by
from rnncheck.watching.seams.tails import body_of, holds_line

_NAME = "lines_ahead"
_BATCH = "_batch"  # what a call in the lines gave, where that has no name
STORED = "_stored"  # what `buffer.extend(…)` is given, where that is more than a name
_DEFINED = (ModuleType, FunctionType, type)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_INNER = ("body", "orelse", "finalbody")


@dataclass(frozen=True)
class Scene:
    """A place that the script has come to, and what it had there."""

    code: CodeType
    line: int
    held: Mapping[str, Any]
    names: dict[str, Any]  # the globals
    given: frozenset[str]  # what a function was called with
    whole: bool  # the script's own lines, which stand in no function
    done: bool = False  # what the line's statement does, has been

    @classmethod
    def of(cls, frame: FrameType, *, done: bool = False) -> Scene:
        """The frame's present one."""
        whole = frame.f_locals is frame.f_globals
        given = frozenset() if whole else frozenset(frame_arguments(frame))
        held = dict(frame.f_locals)
        return cls(frame.f_code, frame.f_lineno, held, frame.f_globals, given, whole, done)


def ways_to(scene: Scene, name: str, batches: set[str]) -> Iterator[FunctionType]:
    """Functions of one batch that return what the lines then have under ``name``: from where one of
    ``batches`` is bound to the place, the nearest first."""
    yield from _functions(_blocks(scene, batches), scene, name)


def shorter_ways_to(scene: Scene, name: str) -> Iterator[FunctionType]:
    """The same of ``name`` as it was at a later statement, the longest first; without those that
    read what a statement ahead of that has bound."""
    yield from _functions(_rests(scene, name), scene, name)


def _functions(blocks: Iterable[Block], scene: Scene, name: str) -> Iterator[FunctionType]:
    result = _stored_by(scene) if name == STORED else _loaded(name)
    if result is None:
        return
    for block in blocks:
        needed = _needed(block.body, _mentioned(result), scene)
        if not needed and name != STORED:
            continue
        body = [*needed, ast.copy_location(ast.Return(value=result), result)]
        held = _held(scene, body, block.batch)
        code = compiled_lines(Block(block.batch, body), scene.code.co_filename, list(held))
        if code is not None:
            made = FunctionType(code, scene.names, _NAME)
            made.__kwdefaults__ = held
            yield made


def _rests(scene: Scene, name: str) -> Iterator[Block]:
    for block in _blocks(scene, {name}):
        for begin in range(1, len(block.body) if block.batch == name else 0):
            ahead, rest = block.body[:begin], block.body[begin:]
            if not (stored_by(ahead) - {name}) & read_first(rest):
                yield Block(name, rest)


def _blocks(scene: Scene, batches: set[str]) -> Iterator[Block]:
    """Statements behind one that binds a batch, up to the one that the scene is in."""
    tree = parsed(scene.code.co_filename)
    if tree is None:
        return
    first = tree.body if scene.whole else body_of(tree, scene.code.co_firstlineno)
    around = reversed(list(_around(None, first, scene.line)))
    for number, (owner, body, at) in enumerate(around):
        until = at + (scene.done and not number)
        for index in reversed(range(at)):
            for batch, rest in _behind(body[index], batches):
                yield Block(batch, [*rest, *body[index + 1 : until]])
        if isinstance(owner, ast.For):
            for batch in _names_in(owner.target) & batches:
                yield Block(batch, body[:until])
        if isinstance(owner, (ast.For, ast.While)):  # its first round, of a batch from ahead of it
            for batch in sorted(read_first(body[:until]) & stored_by(body[:until]) & batches):
                yield Block(batch, body[:until])
        if owner is None:
            for batch in scene.given & batches:
                yield Block(batch, body[:until])


def _around(
    owner: ast.stmt | None, body: list[ast.stmt], line: int
) -> Iterator[tuple[ast.stmt | None, list[ast.stmt], int]]:
    """The blocks around the line from the outside in, whose they are, and which of their statements
    holds it."""
    at = next((n for n, one in reversed(list(enumerate(body))) if holds_line(one, line)), None)
    if at is None:
        return
    yield owner, body, at
    if isinstance(body[at], (*_FUNCTIONS, ast.ClassDef)):
        return
    for name in _INNER:
        inner = getattr(body[at], name, None)
        if isinstance(inner, list):
            yield from _around(body[at], inner, line)


def _behind(one: ast.stmt, batches: set[str]) -> Iterator[tuple[str, list[ast.stmt]]]:
    """What a statement leaves to do behind a batch in it: by the batch's name."""
    if isinstance(one, (ast.With, ast.AsyncWith)):
        for index in reversed(range(len(one.body))):
            for batch, rest in _behind(one.body[index], batches):
                inner = [*rest, *one.body[index + 1 :]]
                kept = copy.copy(one)
                kept.body = inner
                yield batch, [kept] if inner else []
        return
    if isinstance(one, (ast.For, ast.While, ast.If, ast.Try)):  # the last round of a loop
        for index in reversed(range(len(one.body))):
            for batch, rest in _behind(one.body[index], batches):
                yield batch, [*rest, *one.body[index + 1 :]]
        return
    bound = set(bound_by(one)) & batches
    yield from ((batch, []) for batch in sorted(bound))
    value = one.value if isinstance(one, (ast.Assign, ast.AnnAssign)) else None
    if bound and isinstance(value, ast.Call):
        yield from ((_BATCH, [_given(one, inner)]) for inner in _calls_in(value))


def _calls_in(call: ast.Call) -> Iterator[ast.Call]:
    """Calls whose results another one is given, the outermost first."""
    given = [call.func, *call.args, *(one.value for one in call.keywords)]
    for node in (node for one in given for node in ast.walk(one)):
        if isinstance(node, ast.Call):
            yield node


def _given(one: ast.stmt, call: ast.Call) -> ast.stmt:
    """The statement with a batch in the place of the call."""
    made = _InPlaceOf(ast.dump(call, include_attributes=True)).visit(copy.deepcopy(one))
    assert isinstance(made, ast.stmt)
    return made


class _InPlaceOf(ast.NodeTransformer):
    def __init__(self, told: str) -> None:
        self._told = told

    def visit_Call(self, node: ast.Call) -> ast.AST:  # the name is ast's
        if ast.dump(node, include_attributes=True) == self._told:
            return ast.copy_location(_loaded(_BATCH), node)
        return self.generic_visit(node)


def _loaded(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def _stored_by(scene: Scene) -> ast.expr | None:
    """What the one call of ``extend`` in the scene's line is given, in the code that it is in."""
    tree = parsed(scene.code.co_filename)
    found = [
        node
        for node in (() if tree is None else ast.walk(tree))
        if isinstance(node, ast.Call)
        and node.lineno <= scene.line <= (node.end_lineno or node.lineno)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "extend"
    ]
    given = found[0].args if len(found) == 1 else []
    return given[0] if len(given) == 1 and not isinstance(given[0], ast.Name) else None


def _mentioned(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _needed(body: list[ast.stmt], names: set[str], scene: Scene) -> list[ast.stmt]:
    """The statements that one of ``names`` may depend on: those that bind what it is made of, or
    are given it. A method of a replay buffer changes nothing of what it is given."""
    seen = {**scene.names, **scene.held}
    needed, kept = {n for n in names if not _defined(n, seen)}, list[ast.stmt]()
    for one in reversed(body):
        mentions = _mentioned(one)
        if mentions & needed and not _calls_a_buffer(one, seen) and not _prints(one):
            kept.insert(0, one)
            needed |= {n for n in mentions if not _defined(n, seen)}
    return kept


def _defined(name: str, seen: Mapping[str, Any]) -> bool:
    """What nobody gives a batch to by mentioning it."""
    if name not in seen:
        return hasattr(builtins, name)
    return isinstance(seen[name], (*_DEFINED, nn.Module))


def _prints(one: ast.stmt) -> bool:
    call = one.value if isinstance(one, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    return isinstance(function, ast.Name) and function.id == "print"


def _calls_a_buffer(one: ast.stmt, seen: Mapping[str, Any]) -> bool:
    call = one.value if isinstance(one, ast.Expr) else None
    method = call.func if isinstance(call, ast.Call) else None
    return isinstance(method, ast.Attribute) and isinstance(
        _value(method.value, seen), ReplayBuffer
    )


def _value(node: ast.expr, seen: Mapping[str, Any]) -> Any:
    """Of a name, or an attribute of one, without calling anything."""
    if isinstance(node, ast.Name):
        return seen.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, seen), "__dict__", {}).get(node.attr)
    return None


def _held(scene: Scene, body: list[ast.stmt], batch: str) -> dict[str, Any]:
    """What the lines mention, as it was there; what they write records to is nowhere. What a script
    defines in its own lines is there later on as well."""
    named = {n.id for one in body for n in ast.walk(one) if isinstance(n, ast.Name)} - {batch}
    seen = {**scene.names, **scene.held}
    silent = {name for name in named & seen.keys() if writes_records(seen[name])}
    found = {name: scene.held[name] for name in named & scene.held.keys()}
    if scene.whole:
        found = {name: value for name, value in found.items() if not isinstance(value, _DEFINED)}
    return found | {name: Nowhere() for name in silent}


def _names_in(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
