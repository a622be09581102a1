"""What objects hold that calls of their methods change: a state that an agent keeps itself."""

from __future__ import annotations

import dis
import inspect
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from torch import Tensor, nn

from rnncheck.watching.forms.held_states import (
    InsideOf,
    each_once,
    parts_held,
    states_inside,
)
from rnncheck.watching.forms.plain_calls import has_graph, same_leaves
from rnncheck.watching.forms.structures import (
    mapping_like,
    rebuilt,
    records,
    sequence_like,
)

_LARGEST = 65_536  # numbers: a state of 64 envs with 1024 each; storages of rollouts are larger
_NUMBERS = (int, float, np.integer, np.floating)
_LOADS = ("LOAD_ATTR", "LOAD_METHOD")
_MOST, _DEEPEST = 4, 3  # parts of a state, and containers around one: chosen
_TELLING = 2  # calls that show which attributes change


class OwnerStates:
    """Which attributes of an object may be its state, by the method that is called."""

    def __init__(self) -> None:
        self.graphed = False  # what was held before the latest call has a graph
        self._calls = dict[CodeType, int]()
        self._changing = dict[CodeType, set[str]]()
        self._before = dict[CodeType, dict[str, Any]]()  # ahead of the call before

    def before(self, code: CodeType, owner: Any) -> dict[str, Any]:
        """Copies of what the method may change, and the plain numbers that it reads: those of the
        step before, which the loop may put there."""
        self.graphed = False
        numbers = numbers_read(code, owner)
        if owner is None or not self._may_change(code):
            return numbers
        held = self._of(code, owner)
        states = {name: one for name, one in held.items() if _may_be_state(one)}
        self.graphed = has_graph(states)
        copies = {name: cloned(one) for name, one in states.items()}
        if self._calls.get(code, 0) < _TELLING:
            # The loop may have put something there since.
            self._tell(code, self._before.get(code, copies), copies)
            self._before[code] = copies
        return {**numbers, **copies}

    def after(self, code: CodeType, owner: Any, before: dict[str, Any]) -> dict[str, Any]:
        """The same behind the call."""
        if owner is None or not self._may_change(code):
            return {}
        held = self._of(code, owner)
        states = (name for name in before if name in held and _may_be_state(held[name]))
        now = {name: cloned(held[name]) for name in states}
        if self._calls.get(code, 0) < _TELLING:
            self._calls[code] = self._calls.get(code, 0) + 1
            self._tell(code, before, now)
        return now

    def _tell(self, code: CodeType, before: dict[str, Any], now: dict[str, Any]) -> None:
        both = before.keys() & now.keys()
        changed = {name for name in both if not same_leaves(before[name], now[name])}
        self._changing[code] = self._changing.get(code, set()) | changed

    def _may_change(self, code: CodeType) -> bool:
        """Whether the method is known to change something, or not known yet."""
        return bool(self._changing.get(code)) or self._calls.get(code, 0) < _TELLING

    def _of(self, code: CodeType, owner: Any) -> dict[str, Any]:
        """All that it holds, or what is known to change."""
        if self._calls.get(code, 0) < _TELLING:
            return _held(owner, code)
        changing = self._changing[code]
        given = {**vars(type(owner)), **getattr(owner, "__dict__", {})} if changing else {}
        inner = owner._modules if changing and isinstance(owner, nn.Module) else {}
        inner = parts_held(owner) if isinstance(owner, FunctionType) else inner
        given = {**given, **inner}
        return {name: _or_inside(given[name]) for name in changing if name in given}


def numbers_read(code: CodeType, owner: Any) -> dict[str, Any]:
    """The plain numbers that a method reads from an object that is no network."""
    if owner is None or isinstance(owner, (nn.Module, FunctionType)):
        return {}
    held = getattr(owner, "__dict__", {})
    kind: Any = type(owner)
    names = attributes_read(kind, code)
    return {name: one for name, one in held.items() if name in names and _is_number(one)}


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


@cache
def attributes_read(kind: Any, code: CodeType) -> frozenset[str]:
    """The attributes that the code loads by name, and methods of the class that it calls."""
    found, waiting = set[str](), [code]
    while waiting:
        one = waiting.pop()
        waiting += [const for const in one.co_consts if isinstance(const, CodeType)]
        loaded = {told.argval for told in dis.get_instructions(one) if told.opname in _LOADS}
        named = (getattr(kind, name, None) for name in loaded - found)
        methods = (inspect.unwrap(method) for method in named if callable(method))
        waiting += [method.__code__ for method in methods if isinstance(method, FunctionType)]
        found |= loaded
    return frozenset(found)


def _held(owner: Any, code: CodeType) -> dict[str, Any]:
    """What it holds, and networks in it; what it has of its class until it is set."""
    given = {name: one for name, one in vars(type(owner)).items() if name[:2] != "__"}
    kind: Any = type(owner)
    held = each_once({**given, **parts_held(owner)}, attributes_read(kind, code))
    return {name: _or_inside(one) for name, one in held.items()}


def _or_inside(value: Any) -> Any:
    inside = states_inside(value, _may_be_state) if isinstance(value, nn.Module) else None
    return value if inside is None else inside


def cloned(value: Any) -> Any:
    """With copies of the tensors and arrays; objects stay what they are."""
    if isinstance(value, Tensor):
        return (value.detach() if value.requires_grad else value).clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    kind = type(value)
    if kind is dict:
        return {name: cloned(one) for name, one in value.items()}
    if kind is tuple:
        return tuple([cloned(one) for one in value])
    if isinstance(value, dict):
        return mapping_like(value, {name: cloned(one) for name, one in value.items()})
    if isinstance(value, (tuple, list)):
        return sequence_like(value, [cloned(one) for one in value])
    parts = records(value)
    return rebuilt(value, {name: cloned(one) for name, one in parts.items()}) if parts else value


def _may_be_state(value: Any) -> bool:
    """Also one of several layers in a tuple or a list, and those of several networks by name."""
    if value is None or isinstance(value, InsideOf):
        return True
    return _are_states(value, _DEEPEST)


def _are_states(value: Any, deep: int) -> bool:
    parts = list(value.values()) if type(value) is dict else value
    if isinstance(parts, (tuple, list)):
        inner = parts if deep else ()
        return 0 < len(inner) <= _MOST and all(_are_states(one, deep - 1) for one in inner)
    return isinstance(value, Tensor) and value.numel() <= _LARGEST
