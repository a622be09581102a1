"""States that networks inside an object of the user's may hold, beside their parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import FunctionType, SimpleNamespace
from typing import Any

from torch import nn

from rnncheck.pipeline.copying.closures import is_own_instance
from rnncheck.watching.forms.structures import holdings, rebuilt, shallow_copy

_DEEPEST = 3  # a memory in a policy in an algorithm


class InsideOf(SimpleNamespace):
    """What was held inside a network, by attribute."""


def parts_held(owner: Any) -> dict[str, Any]:
    """What an object holds, and networks among it; of a function what it reads by name."""
    inner = owner._modules if isinstance(owner, nn.Module) else {}
    return {**holdings(owner), **inner}


def each_once(held: Mapping[str, Any], read: Collection[str] = ()) -> dict[str, Any]:
    """What is held, a network with several names by one alone: by one that is ``read``, or its
    first."""
    names = sorted(held, key=lambda name: name not in read)
    first = {id(held[name]): name for name in reversed(names)}
    return {
        name: one
        for name, one in held.items()
        if not isinstance(one, nn.Module) or first[id(one)] == name
    }


def states_inside(
    value: Any, may_be_state: Callable[[Any], bool], depth: int = 0
) -> InsideOf | None:
    """Of a network of the user's classes what may be a state, in networks inside it too; None where
    there is nothing."""
    if not isinstance(value, nn.Module) or not is_own_instance(value) or depth >= _DEEPEST:
        return None
    found = dict[str, Any]()
    for name, one in each_once(parts_held(value)).items():
        inner = states_inside(one, may_be_state, depth + 1)
        if inner is not None:
            found[name] = inner
        elif not isinstance(one, nn.Module) and may_be_state(one):
            found[name] = one
    return InsideOf(**found) if found else None


def with_states_inside(owner: Any, parts: Mapping[str, Any]) -> Any:
    """A copy of the owner that holds these, a function one that reads them by its names; networks'
    copies share what is not changed, but for lists, which they may make longer."""
    values = {
        name: with_states_inside(_held_by(owner, name), vars(one))
        if isinstance(one, InsideOf)
        else one
        for name, one in parts.items()
    }
    if isinstance(owner, FunctionType):
        return rebuilt(owner, values)
    made, held = shallow_copy(owner), parts_held(owner)
    lists = {name: list(one) for name, one in vars(owner).items() if type(one) is list}
    copies = {id(held[n]): values[n] for n, one in parts.items() if isinstance(one, InsideOf)}
    others = {name: copies[id(one)] for name, one in held.items() if id(one) in copies}
    for name, value in {**lists, **others, **values}.items():
        object.__setattr__(made, name, value)  # that of a frozen dataclass refuses
    return made


def _held_by(owner: Any, name: str) -> Any:
    if isinstance(owner, FunctionType):
        return parts_held(owner).get(name)
    return getattr(owner, name, None)


def states_again(owner: Any, like: Mapping[str, Any]) -> dict[str, Any]:
    """What the owner holds now of what ``like`` names."""
    return {
        name: InsideOf(**states_again(_held_by(owner, name), vars(one)))
        if isinstance(one, InsideOf)
        else _held_by(owner, name)
        for name, one in like.items()
    }
