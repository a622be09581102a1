"""Functions whose copies call copies: what they hold in their cells, their defaults and, where it
is a network or a tensor, under a global name."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from rnncheck.pipeline.guard.user_frames import is_user_file

_STATE = (nn.Module, Tensor, Optimizer)
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
    if _is_users(function):
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
    """The global names of networks and tensors that a function of the user's reads, itself or by
    way of other functions of its module, with the names of these functions."""
    return _state_names(function, set()) if _is_users(function) else set()


def _state_names(function: types.FunctionType, seen: set[int]) -> set[str]:
    seen.add(id(function))
    found: set[str] = set()
    for name in set(_names(function.__code__)) & set(function.__globals__):
        value = function.__globals__[name]
        if isinstance(value, _STATE):
            found.add(name)
        elif _is_neighbour(value, function) and id(value) not in seen:
            behind = _state_names(value, seen)
            found |= {name, *behind} if behind else set()
    return found


def _is_neighbour(value: Any, function: types.FunctionType) -> bool:
    return isinstance(value, types.FunctionType) and value.__globals__ is function.__globals__


def _is_users(function: types.FunctionType) -> bool:
    """Of a file of the user's, or typed in."""
    file = function.__code__.co_filename
    return file.startswith("<") or is_user_file(file)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)
