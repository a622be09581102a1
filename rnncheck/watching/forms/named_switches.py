"""A switch of the user's own that is no attribute of the policy: what the policy's code reads by a
global name, which another function or a ``with`` of theirs sets around the training pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from torch import nn
from torchrl.modules import set_recurrent_mode

from rnncheck.pipeline.copying.closures import (
    global_names,
    is_own_instance,
    is_users_function,
    is_users_type,
)

_PLAIN = (bool, str, type(None))  # numbers count something, more often than not
_MARK = "="  # ahead of a global's name: no path of a module begins with it
_ITSELF = ""  # the value of the name, not an attribute of what it names

Switches = dict[str, dict[str, Any]]  # by path: attribute and value
Values = dict[str, Any]


@dataclass(frozen=True)
class _Holder:
    """Where values are kept that some code reads."""

    read: Callable[[], Values]
    write: Callable[[str, Any], Any]


_NONE = _Holder(dict, lambda _name, _value: None)  # of a name that nothing reads any more


def named_switches(policy: nn.Module) -> Switches:
    """What its code reads by name and is a plain value: by the name, with a mark ahead of it."""
    read = {_MARK + name: holder.read() for name, holder in _holders(policy).items()}
    return {path: values for path, values in read.items() if values}


def named_alone(switches: Switches) -> Switches:
    """Those of them that are no attributes of the policy."""
    return {path: held for path, held in switches.items() if path.startswith(_MARK)}


def still_set(before: Switches, now: Callable[[], Switches]) -> Switches:
    """Those set ``before``, at the policy's call, that still are: what its caller sets and puts
    back in between is set by that code itself when it is called again."""
    named = named_alone(before)
    held = now() if named else {}
    return {path: values for path, values in named.items() if held.get(path) == values}


def modes_of(policy: nn.Module) -> dict[str, bool]:
    """Which of its modules ``train()`` was called on, by path."""
    return {path: one.training for path, one in policy.named_modules()}


@contextmanager
def named_set(policy: nn.Module, switches: Switches) -> Iterator[None]:
    """Set them inside, and put them back."""
    mine = named_alone(switches)
    holders = _holders(policy) if mine else {}
    with ExitStack() as scope:
        for path, values in mine.items():
            holder = holders.get(path.removeprefix(_MARK), _NONE)
            before = holder.read()
            for name in values.keys() & before.keys():
                holder.write(name, values[name])
                scope.callback(holder.write, name, before[name])
        yield


def setter_of(policy: nn.Module, switches: Switches) -> Callable[[], None]:
    """What sets those that are no attributes of the policy, for good."""
    mine = named_alone(switches)
    holders = _holders(policy) if mine else {}
    known = [
        (holders[path.removeprefix(_MARK)].write, name, value)
        for path, values in mine.items()
        if path.removeprefix(_MARK) in holders
        for name, value in values.items()
    ]

    def set_them() -> None:
        for write, name, value in known:
            write(name, value)

    return set_them


@dataclass(frozen=True)
class OwnSwitch:
    """What the script has set around a loss: the switches that the ``policy`` reads by name, and
    TorchRL's mode."""

    recurrent: bool | None
    policy: nn.Module
    switches: Switches

    @contextmanager
    def set(self) -> Iterator[None]:
        """Set it inside."""
        with ExitStack() as scope:
            if self.recurrent is not None:
                scope.enter_context(set_recurrent_mode(self.recurrent))
            scope.enter_context(named_set(self.policy, self.switches))
            yield


def as_acted(
    policy: Any, switches: Switches, trains: Mapping[str, bool]
) -> AbstractContextManager[None]:
    """The named switches, and ``train()`` or ``eval()``, as they were while it acted: a script that
    was ended may have left others behind."""
    return _as_acted(policy, switches, trains) if isinstance(policy, nn.Module) else nullcontext()


@contextmanager
def _as_acted(policy: nn.Module, switches: Switches, trains: Mapping[str, bool]) -> Iterator[None]:
    before = [(one, one.training, path) for path, one in policy.named_modules()]
    for one, was, path in before:
        one.training = trains.get(path, was)
    try:
        with named_set(policy, switches):
            yield
    finally:
        for one, was, _ in before:
            one.training = was


def _holders(policy: nn.Module) -> dict[str, _Holder]:
    found, seen = dict[str, _Holder](), set[int]()
    for kind in dict.fromkeys(type(part) for part in policy.modules()):
        for one in kind.__mro__:
            if is_users_type(one):
                _of_class(one, found, seen)
    return found


def _of_class(kind: type, found: dict[str, _Holder], seen: set[int]) -> None:
    for member in vars(kind).values():
        inner = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if isinstance(inner, FunctionType):
            _read_by(inner, found, seen)


def _read_by(function: FunctionType, found: dict[str, _Holder], seen: set[int]) -> None:
    """All that the function reads by a global name, itself or by way of other functions."""
    function = getattr(function, "__wrapped__", function)
    if id(function) in seen or not is_users_function(function):
        return
    seen.add(id(function))
    for name in global_names(function) & function.__globals__.keys():
        _add(name, function.__globals__, function, found, seen)


def _add(
    name: str,
    names: dict[str, Any],
    function: FunctionType,
    found: dict[str, _Holder],
    seen: set[int],
) -> None:
    value = names[name]
    if isinstance(value, FunctionType):
        _read_by(value, found, seen)
    elif isinstance(value, ModuleType):
        asked = hash((id(function), id(value)))  # modules may name each other
        if asked not in seen and _is_users(value):
            seen.add(asked)
            for inner in global_names(function) & vars(value).keys():
                _add(inner, vars(value), function, found, seen)
    elif isinstance(value, _PLAIN):
        found.setdefault(name, _variable(names, name))
    elif isinstance(value, ContextVar):
        found.setdefault(name, _context_variable(value))
    elif _is_a_bag(value):
        found.setdefault(name, _attributes(value))
        for kind in value.__mro__ if isinstance(value, type) else type(value).__mro__:
            if is_users_type(kind) and id(kind) not in seen:
                seen.add(id(kind))
                _of_class(kind, found, seen)


def _is_users(module: ModuleType) -> bool:
    inner = (one for one in vars(module).values() if isinstance(one, FunctionType))
    return any(is_users_function(one) for one in inner if one.__module__ == module.__name__)


def _is_a_bag(value: Any) -> bool:
    """A class or an object of the user's that is no network."""
    if isinstance(value, type):
        return is_users_type(value) and not issubclass(value, nn.Module)
    return is_own_instance(value) and not isinstance(value, nn.Module)


def _variable(names: dict[str, Any], name: str) -> _Holder:
    return _Holder(
        lambda: _plain({_ITSELF: names.get(name, ())}),
        lambda _, value: names.__setitem__(name, value),
    )


def _context_variable(variable: ContextVar[Any]) -> _Holder:
    def read() -> Values:
        try:
            return _plain({_ITSELF: variable.get()})
        except LookupError:  # it has no value yet
            return {}

    return _Holder(read, lambda _, value: variable.set(value))


def _attributes(value: Any) -> _Holder:
    def read() -> Values:
        kinds = [] if isinstance(value, type) else type(value).__mro__
        known: list[Mapping[str, Any]] = [
            vars(kind) for kind in reversed(kinds) if is_users_type(kind)
        ]
        known.append(getattr(value, "__dict__", {}))
        return _plain({name: held for one in known for name, held in one.items()})

    return _Holder(read, lambda name, new: setattr(value, name, new))


def _plain(values: Mapping[str, Any]) -> Values:
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, _PLAIN) and not name.startswith("__")
    }
