"""The lines of a user's loop between the first call of a network and ``env.step``, as a function of
the variables that they read."""

from __future__ import annotations

import ast
import copy
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from torch import Tensor, nn

from rnncheck.pipeline.copying.closures import is_own_instance
from rnncheck.pipeline.copying.holdings import held_modules
from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.plain_calls import LINES
from rnncheck.watching.seams.arguments import call_at, parsed
from rnncheck.watching.seams.held_inside import inside_of_networks, named_in, put_in, taken_from
from rnncheck.watching.seams.lines import compiled_function
from rnncheck.watching.seams.nowhere import Nowhere, SpacesOf, writes_records
from rnncheck.watching.seams.reads import entries_read, read_first, stored_by
from rnncheck.watching.seams.rows_read import RowsRead, RowsRenamed, number_of, row_of, rows_read

TAKEN = "action taken"  # by which name the function gives what ``env.step`` got
_UNREAD = "_unread"
_MOST_ENVS = 64  # whose observations stand in a list: chosen, vectors of more are arrays
_LOOPS = (ast.For, ast.While, ast.AsyncFor)
_STORAGES = (Tensor, np.ndarray, list, dict, deque)
_LISTS = (list, dict, deque, set)
_DEFINED = (ModuleType, FunctionType, type)


@dataclass(frozen=True)
class ActingBlock:
    """The code of the function; ``reads`` are the variables that it reads as they were before,
    ``names`` all that it mentions. One like ``self.h`` has ``held`` its object and attribute."""

    code: CodeType
    of: CodeType  # of the frame that it was taken from
    reads: frozenset[str]
    names: frozenset[str]
    stores: frozenset[str]
    held: Mapping[str, tuple[str, str]]
    lines: tuple[int, int]  # of the first call of a network, and of ``env.step``
    entries: Mapping[str, frozenset[str]]  # of variables that are read by some of theirs alone
    drawn: frozenset[str]  # what each env's action is made of where they are stepped by turns
    rows: RowsRead  # variables that are one step of an array
    order: Mapping[str, int]  # in which the variables come first: states of a cell come in theirs

    def values(self, seen: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
        """What the variables are, as far as they are there."""
        names_first = sorted(names, key=lambda name: (self.order.get(name, 0), name))
        found = {name: seen[name] for name in names_first if name in seen}
        for name in (name for name in names_first if name in self.held):
            owner, attribute = self.held[name]
            holder = named_in(seen, owner)
            if hasattr(holder, attribute):
                found[name] = getattr(holder, attribute)
        for name in names & self.rows.keys():
            base, index = self.rows[name]
            array = self.values(seen, frozenset((base,))).get(base)
            if (row := row_of(array, number_of(index, seen))) is not None:
                found[name] = row
        return found


def acting_block(
    frame: FrameType, first: int, *, by_turns: bool = False, entry: Key = ()
) -> ActingBlock | None:
    """That of the frame, which calls ``env.step`` now: from the statement that holds the line
    ``first`` on, in the innermost loop around the step, or around the loop over the envs that are
    stepped ``by_turns``. What the env gets is the action, or a tensordict with it as an
    ``entry``."""
    tree, call = parsed(frame.f_code.co_filename), call_at(frame)
    if tree is None or call is None or not call.args:
        return None
    body = _ahead(tree.body, first, frame.f_lineno, by_turns)
    if body is None:
        return None
    taken = [] if by_turns else [_taken(call, entry)]  # by turns it is of one of the envs alone
    lines = [*_without_records(body, frame, taken), *taken]
    held = _attributes(lines, frame)
    turned = _Renamed({where: name for name, where in held.items()})
    made = [turned.visit(one) for one in lines]
    rows = rows_read(made, frame, {name: _held_by(frame, *where) for name, where in held.items()})
    made = [RowsRenamed(rows).visit(one) for one in made]
    if inside := inside_of_networks(lines, frame):
        copies = _Renamed({one.way: one.copy for one in inside if one.way is not None})
        made = [*put_in(inside), *(copies.visit(one) for one in made), *taken_from(inside)]
        held |= {one.name: (one.owner, one.attribute) for one in inside}
    mentioned = {n.id for one in made for n in ast.walk(one) if isinstance(n, ast.Name)}
    names, stores = mentioned & {*held, *rows, *_variables(frame)}, stored_by(made)
    code = _compiled(made, names, stores, frame.f_code.co_filename)
    if code is None:
        return None
    read, around = frozenset(read_first(made)), (first, call.lineno)
    return ActingBlock(
        code,
        frame.f_code,
        read & names,
        frozenset(names),
        frozenset(stores),
        held,
        around,
        entries_read(lines[: len(lines) - len(taken)]),
        frozenset(_made_of(call, tree.body) & stores if by_turns else ()),
        rows,
        _first_mentions(made),
    )


def _first_mentions(lines: list[ast.stmt]) -> dict[str, int]:
    """By name, which of the places where variables are mentioned is its first."""
    nodes = (node for one in lines for node in ast.walk(one) if isinstance(node, ast.Name))
    places = sorted((getattr(n, "lineno", 0), getattr(n, "col_offset", 0), n.id) for n in nodes)
    found = dict[str, int]()
    for number, (_, _, name) in enumerate(places):
        found.setdefault(name, number)
    return found


def _held_by(frame: FrameType, owner: str, attribute: str) -> Any:
    return getattr({**frame.f_globals, **frame.f_locals}.get(owner), attribute, None)


def _made_of(call: ast.Call, body: list[ast.stmt]) -> set[str]:
    """Names that what the call is given is made of, in the innermost loop around it: ``2 * a[i]``,
    or ``a`` of ``for env, a in zip(envs, actions)``."""
    found = _loads(call.args[:1])
    around = [inside[at] for inside, at, _ in _around(body, call.lineno)]
    loop = next((one for one in reversed(around) if isinstance(one, ast.For)), None)
    if loop is None:
        return found
    bound = [(loop.target, loop.iter)]
    for one in ast.walk(loop):
        if isinstance(one, ast.Assign) and one.lineno < call.lineno:
            bound += [(target, one.value) for target in one.targets]
    for target, value in reversed(bound):
        found |= _loads([value]) if stored_by([target]) & found else set()
    return found


def _taken(call: ast.Call, entry: Key) -> ast.stmt:
    name, value = ast.Name(id=TAKEN, ctx=ast.Store()), call.args[0]
    if entry:
        parts: list[ast.expr] = [ast.Constant(part) for part in entry]
        index = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
        value = ast.Subscript(value, index, ast.Load())
    made = ast.copy_location(ast.Assign([name], value), call)
    return copy.deepcopy(ast.fix_missing_locations(made))


def _variables(frame: FrameType) -> set[str]:
    """Of a script's own lines without what is defined: that is there later on as well."""
    if frame.f_locals is not frame.f_globals:
        return set(frame.f_locals)
    return {name for name, one in frame.f_globals.items() if not isinstance(one, _DEFINED)}


def _ahead(body: list[ast.stmt], first: int, step: int, by_turns: bool) -> list[ast.stmt] | None:
    """The statements from that of ``first`` to that of ``step``, without the latter."""
    for inside, at, is_loop in reversed(list(_around(body, step))):
        begins = next((n for n in range(at + 1) if _holds(inside[n], first)), None)
        if begins is not None:
            return inside[begins:at]
        if is_loop and not by_turns:
            return None
        by_turns = by_turns and not is_loop
    return None


def _around(
    body: list[ast.stmt], line: int, *, is_loop: bool = False
) -> Iterator[tuple[list[ast.stmt], int, bool]]:
    """The blocks around the line from the outside in, which of their statements holds it, and
    whether a loop runs them."""
    at = next((n for n, one in enumerate(body) if _holds(one, line)), None)
    if at is None:
        return
    yield body, at, is_loop
    for name in ("body", "orelse", "finalbody"):
        inner = getattr(body[at], name, None)
        if isinstance(inner, list):
            yield from _around(inner, line, is_loop=isinstance(body[at], _LOOPS))


def _holds(statement: ast.stmt, line: int) -> bool:
    return statement.lineno <= line <= (statement.end_lineno or statement.lineno)


def _without_records(
    body: list[ast.stmt], frame: FrameType, taken: list[ast.stmt]
) -> list[ast.stmt]:
    """Copies without what only writes something down: what acts does not need it."""
    seen = {**frame.f_globals, **frame.f_locals}
    own = stored_by(body)

    def writes(one: ast.stmt) -> bool:
        return _writes(one, seen) and not _fills(one, own)

    bare = _Kept(lambda one: not writes(one)).of(body)
    needed = _read_in([*bare, *taken])
    kept = _Kept(lambda one: not writes(one) or bool(_written_to(one) & needed)).of(body)
    dropped = _Dropped(lambda base: isinstance(_value(base, seen), _STORAGES), needed)
    return [dropped.visit(one) for one in kept]


class _Reads(ast.NodeVisitor):
    """Names that are read, and not for putting something into what they hold."""

    def __init__(self) -> None:
        self.names = set[str]()

    def visit_Name(self, node: ast.Name) -> None:
        """One of them."""
        self.names |= {node.id} if isinstance(node.ctx, ast.Load) else set()

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """``a[t] = …`` reads the place alone."""
        self.visit(node.slice)
        if not isinstance(node.ctx, ast.Store):
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """``a[t] += …`` reads what is there."""
        self.generic_visit(node)
        self.names |= _loads([node.target])


def _read_in(nodes: Iterable[ast.AST]) -> set[str]:
    found = _Reads()
    for one in nodes:
        found.visit(one)
    return found.names


class _Dropped(ast.NodeTransformer):
    """``a, b[t] = …`` with a variable of its own in the place of ``b[t]``, where ``b`` is a storage
    that nothing needs."""

    def __init__(self, stores: Callable[[ast.expr], bool], needed: set[str]) -> None:
        self._stores, self._needed = stores, needed

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        """Targets are tuples."""
        if isinstance(node.ctx, ast.Store):
            node.elts = [ast.copy_location(self._other(one), one) for one in node.elts]
        return node

    def _other(self, one: ast.expr) -> ast.expr:
        base = one.value if isinstance(one, ast.Subscript) else None
        if base is None or not self._stores(base) or _loads([base]) & self._needed:
            return one
        return ast.Name(id=_UNREAD, ctx=ast.Store())


def _fills(one: ast.stmt, own: Collection[str]) -> bool:
    """Whether it calls a method of what the lines themselves have made, such as an empty list."""
    call = one.value if isinstance(one, ast.Expr) else None
    method = call.func if isinstance(call, ast.Call) else None
    owner = method.value if isinstance(method, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in own


class _Kept(ast.NodeTransformer):
    """Statements as far as they are needed, in whatever block."""

    def __init__(self, needed: Callable[[ast.stmt], bool]) -> None:
        self._needed = needed

    def of(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Copies of those of a block."""
        left = [copy.deepcopy(one) for one in body if self._needed(one)]
        return [self.visit(one) for one in left]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Blocks inside a statement."""
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(node, name, None)
            if isinstance(inner, list) and inner:
                setattr(node, name, self.of(inner) or [ast.copy_location(ast.Pass(), inner[0])])
        return node


def _writes(one: ast.stmt, seen: Mapping[str, Any]) -> bool:
    """Whether it calls something of no network, or puts something into a storage."""
    if isinstance(one, ast.Expr):
        call = one.value.func if isinstance(one.value, ast.Call) else None
        owner = call.value if isinstance(call, ast.Attribute) else call
        held = None if owner is None else _value(owner, seen)
        return not any(held_modules(held))
    if isinstance(one, ast.AugAssign):
        return isinstance(_value(one.target, seen), _LISTS)
    if not isinstance(one, ast.Assign):
        return False
    targets = _each_target(one)
    bases = [t.value for t in targets if isinstance(t, ast.Subscript)]
    stored = [isinstance(_value(base, seen), _STORAGES) for base in bases]
    return len(stored) == len(targets) and all(stored)


def _each_target(one: ast.Assign) -> list[ast.expr]:
    """Of ``a[t], b[t] = …`` both."""
    several = (t.elts if isinstance(t, ast.Tuple) else [t] for t in one.targets)
    return [target for each in several for target in each]


def _written_to(one: ast.stmt) -> set[str]:
    """Names that a statement which puts something into a storage mentions as that."""
    if isinstance(one, ast.Assign):
        return _loads([t.value for t in _each_target(one) if isinstance(t, ast.Subscript)])
    return set()


def _value(node: ast.expr, seen: Mapping[str, Any]) -> Any:
    """Of a name or an attribute of one, without calling anything."""
    if isinstance(node, ast.Name):
        return seen.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, seen)
        return getattr(owner, "__dict__", {}).get(node.attr)
    return _value(node.value, seen) if isinstance(node, ast.Subscript) else None


def _attributes(lines: list[ast.stmt], frame: FrameType) -> dict[str, tuple[str, str]]:
    """Attributes of the user's objects that hold data, or get some in the lines, by a name."""
    seen, found = {**frame.f_globals, **frame.f_locals}, dict[str, tuple[str, str]]()
    for node in (node for one in lines for node in ast.walk(one)):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        owner = seen.get(node.value.id)
        if isinstance(owner, type) or not is_own_instance(owner):
            continue
        held = getattr(owner, "__dict__", {})  # a named tuple has none
        if node.attr in held and _is_data(held[node.attr]):
            found[f"{node.value.id}_{node.attr}"] = (node.value.id, node.attr)
    return {name: where for name, where in found.items() if name not in seen}


def _is_data(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        arrays = all(isinstance(one, np.ndarray) for one in value)  # of each env one
        return 0 < len(value) <= (_MOST_ENVS if arrays else 4) and all(map(_is_data, value))
    numbers = (Tensor, np.ndarray, bool, int, float)
    return value is None or (isinstance(value, numbers) and not isinstance(value, nn.Parameter))


class _Renamed(ast.NodeTransformer):
    """Attributes as variables."""

    def __init__(self, names: Mapping[tuple[str, str], str]) -> None:
        self._names = names

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """``self.h`` as ``self_h``."""
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and (node.value.id, node.attr) in self._names:
            name = self._names[node.value.id, node.attr]
            return ast.copy_location(ast.Name(id=name, ctx=node.ctx), node)
        return node


def _loads(nodes: list[Any]) -> set[str]:
    inside = (node for one in nodes for node in ast.walk(one))
    return {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _compiled(
    body: list[ast.stmt], names: set[str], stores: set[str], path: str
) -> CodeType | None:
    """A function of ``names`` that gives what it stored, by name."""
    wanted = ast.Tuple([ast.Constant(value=one) for one in sorted(stores)], ast.Load())
    given = ast.parse("{n: v for n, v in locals().items() if n in 0}", mode="eval").body
    assert isinstance(given, ast.DictComp)
    test = given.generators[0].ifs[0]
    assert isinstance(test, ast.Compare)
    test.comparators = [wanted]
    arguments = ast.arguments(
        posonlyargs=[],
        args=[],
        kwonlyargs=[ast.arg(arg=name) for name in sorted(names)],
        kw_defaults=[ast.Constant(value=None) for _ in names],
        defaults=[],
    )
    return compiled_function(LINES, arguments, [*body, ast.Return(value=given)], path)


def acting_function(block: ActingBlock, frame: FrameType) -> FunctionType:
    """Its other names are what they are in the frame now."""
    held = block.values(frame.f_locals, block.names)
    function = FunctionType(block.code, frame.f_globals, LINES)
    function.__kwdefaults__ = {name: _harmless(one) for name, one in held.items()}
    return function


def _harmless(value: Any) -> Any:
    """In the place of what must not be touched again: records and envs."""
    if writes_records(value):
        return Nowhere()
    return SpacesOf(value) if isinstance(value, (gymnasium.Env, VectorEnv)) else value
