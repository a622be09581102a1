"""Functions whose copies call copies: what they hold in their cells, their defaults and, where it
is a network or a tensor, under a global name."""

from __future__ import annotations

import argparse
import sys
import types
from collections.abc import Iterator
from typing import Any, Protocol

from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.optim import Optimizer

from rnncheck.pipeline.guard.user_frames import is_user_file

_STATE = (nn.Module, Tensor, TensorDictBase, Optimizer)
_BAGS = (types.SimpleNamespace, argparse.Namespace)
_NESTED = 2  # lists in dicts: what people keep their networks in
EMPTY = object()


class Copying(Protocol):
    """What a function's parts are copied by."""

    memo: dict[int, Any]

    def part(self, value: Any) -> Any:
        """The copy of one part."""

    def part_at(self, name: object, value: Any) -> Any:
        """The copy of one part that has a name."""

    def remember(self, value: Any, made: Any) -> None:
        """Note a copy."""

    def undone(self) -> Any:
        """Forget what is copied inside where that raises."""


def copied_function(copier: Copying, function: types.FunctionType) -> types.FunctionType:
    """The same code over copies. A function that holds nothing is its own copy.

    So is one of a library whose cells cannot be copied: a decorator's locks and caches.
    """
    if is_users_function(function):
        return _rebuilt(copier, function)
    try:
        with copier.undone():
            return _rebuilt(copier, function)
    except Exception:
        return function


def _rebuilt(copier: Copying, function: types.FunctionType) -> types.FunctionType:
    cells, names = function.__closure__ or (), function.__code__.co_freevars
    own = _globals(copier, function)
    given = function.__kwdefaults__ or {}
    defaults = copier.part_at("defaults", function.__defaults__)
    named = {name: copier.part_at(name, value) for name, value in given.items()}
    same = defaults is function.__defaults__ and all(given[name] is named[name] for name in given)
    if not cells and same and own is function.__globals__:
        return function
    empty = tuple(_cell(copier, cell) for cell in cells)
    made = types.FunctionType(function.__code__, own, function.__name__, defaults, empty)
    copier.remember(function, made)  # before the cells are filled: one may hold the function
    made.__kwdefaults__ = named or None
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    made.__doc__, made.__annotations__ = function.__doc__, function.__annotations__
    for name, cell, new in zip(names, cells, empty, strict=True):
        _fill(copier, name, cell, new)
    made.__dict__.update(copier.part(function.__dict__))
    return made


def _cell(copier: Copying, cell: types.CellType) -> types.CellType:
    """An empty cell, the same one for every function that shares it."""
    if id(cell) not in copier.memo:
        copier.remember(cell, types.CellType())
    made: types.CellType = copier.memo[id(cell)]
    return made


def _fill(copier: Copying, name: str, cell: types.CellType, made: types.CellType) -> None:
    held = content(cell)
    if held is not EMPTY and content(made) is EMPTY:
        made.cell_contents = copier.part_at(name, held)


def content(cell: types.CellType) -> Any:
    """What is in the cell; ``EMPTY`` where its variable is not assigned yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def _globals(copier: Copying, function: types.FunctionType) -> dict[str, Any]:
    """The module's names for the copy: with copies of the networks that it reaches by name."""
    theirs = function.__globals__
    reached = state_names(function)
    own: dict[str, Any] = copier.memo.get(id(theirs), theirs)
    if reached and own is theirs:
        own = dict(theirs)
        copier.remember(theirs, own)
    for name in reached:
        if own[name] is theirs[name]:
            own[name] = copier.part_at(name, theirs[name])
    return own


def state_names(function: types.FunctionType) -> set[str]:
    """The global names of networks, tensors and the user's own objects that a function of the
    user's reads, itself or by way of other functions of its module, with the names of these
    functions."""
    return _state_names(function, set()) if is_users_function(function) else set()


def _state_names(function: types.FunctionType, seen: set[int]) -> set[str]:
    seen.add(id(function))
    found: set[str] = set()
    for name in set(_names(function.__code__)) & set(function.__globals__):
        value = function.__globals__[name]
        if holds_state(value):
            found.add(name)
        elif _is_neighbour(value, function) and id(value) not in seen:
            behind = _state_names(value, seen)
            found |= {name, *behind} if behind else set()
    return found


def _is_neighbour(value: Any, function: types.FunctionType) -> bool:
    return isinstance(value, types.FunctionType) and value.__globals__ is function.__globals__


def holds_state(value: Any, depth: int = 0) -> bool:
    """A network, a tensor, an optimiser; an object of a class of the user's, which may hold them;
    a list or dict of those."""
    if isinstance(value, _STATE) or is_own_instance(value):
        return True
    if depth < _NESTED and isinstance(value, (list, tuple, dict)):
        inner = value.values() if isinstance(value, dict) else value
        return any(holds_state(item, depth + 1) for item in inner)
    return False


def is_own_instance(value: Any) -> bool:
    """An object of a class that the user wrote, or a plain bag of what they name; no function and
    no class."""
    if isinstance(value, (type, types.FunctionType)):
        return False
    return isinstance(value, _BAGS) or is_users_type(type(value))


def is_users_type(kind: type) -> bool:
    """A class of a file of the user's, or typed in."""
    if kind.__module__ == "__main__":
        return True
    return is_user_file(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")


def is_users_function(function: types.FunctionType) -> bool:
    """Of a file of the user's, or typed in."""
    file = function.__code__.co_filename
    if file.startswith("<frozen "):  # Python's own
        return False
    return file.startswith("<") or is_user_file(file)


def global_names(function: types.FunctionType) -> set[str]:
    """The names that the function, or one inside of it, may look up among its module's."""
    return set(_names(function.__code__))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)
