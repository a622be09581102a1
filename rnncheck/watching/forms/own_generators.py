"""Generators of random numbers and processes of noise that a script holds itself: a policy may
explore by them."""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import gymnasium
import numpy as np
import torch

from rnncheck.pipeline.copying.closures import content, global_names, is_own_instance

_LARGEST = 1024  # numbers of an array that is put back: a memory is none. Chosen
_Restore = Callable[[], None]


@contextmanager
def drawn_from_the_global_one(
    function: Any, owner: Any, given: Mapping[str, Any]
) -> Iterator[None]:
    """Inside, each generator that the function reads, is given or has in its owner goes on from a
    number of Python's global one: runs under one seed draw the same, runs under two do not. Behind
    the context it is what it was, as are numbers and arrays of the objects that they have, such as
    the noise of an Ornstein-Uhlenbeck process."""
    held = _held(function, owner, given)
    restored = [back for one in held if (back := _seeded(one)) is not None]
    restored += [back for one in held if one is not owner for back in _process(one)]
    try:
        yield
    finally:
        for back in restored:
            back()


def _held(function: Any, owner: Any, given: Mapping[str, Any]) -> list[Any]:
    inner = inspect.unwrap(getattr(function, "__func__", function))
    values = [*given.values(), *getattr(owner, "__dict__", {}).values()]
    if isinstance(inner, FunctionType):
        names = global_names(inner) & inner.__globals__.keys()
        values += [inner.__globals__[name] for name in names]
        values += [content(cell) for cell in inner.__closure__ or ()]
        values += (inner.__kwdefaults__ or {}).values()
    found = [drawn for one in values for drawn in (one, *_of_spaces(one), *_inside(one))]
    return list({id(one): one for one in found}.values())


def _inside(value: Any) -> Iterator[Any]:
    """What an object of the user's own holds, such as the generator of its noise."""
    if _is_process(value):
        yield from getattr(value, "__dict__", {}).values()


def _is_process(value: Any) -> bool:
    return is_own_instance(value) and not isinstance(value, (torch.nn.Module, gymnasium.Env, type))


def _process(one: Any) -> Iterator[_Restore]:
    """How the numbers and the small arrays of an object are put back."""
    for name, value in list(getattr(one, "__dict__", {}).items()) if _is_process(one) else ():
        if isinstance(value, np.ndarray) and value.size <= _LARGEST and value.dtype != object:
            yield functools.partial(_put_array, one, name, value, value.copy())
        elif type(value) in (int, float, np.float32, np.float64):
            yield functools.partial(setattr, one, name, value)


def _put_array(one: Any, name: str, array: np.ndarray[Any, Any], held: Any) -> None:
    array[...] = held
    setattr(one, name, array)


def _of_spaces(value: Any) -> Iterator[Any]:
    """Those that a space, or the action space of an env, draws samples with, part by part."""
    space = value if hasattr(type(value), "sample") else _read(value, "action_space")
    if space is None or not hasattr(type(space), "np_random"):
        return
    yield _read(space, "np_random")
    inner = _read(space, "spaces")
    for one in inner.values() if isinstance(inner, Mapping) else inner or ():
        yield from _of_spaces(one)


def _read(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # an attribute of a user's may raise anything
        return None


def _seeded(one: Any) -> _Restore | None:
    """How it is put back, with a new seed; None for what is no generator."""
    if isinstance(one, random.Random):
        mine = one.getstate()
        one.seed(random.getrandbits(32))
        return lambda: one.setstate(mine)
    if isinstance(one, np.random.Generator):
        bits, state = one.bit_generator, one.bit_generator.state
        bits.state = type(bits)(random.getrandbits(32)).state
        return lambda: setattr(bits, "state", state)
    if isinstance(one, np.random.RandomState):
        held = one.get_state()
        one.seed(random.getrandbits(32))
        return lambda: one.set_state(held)
    if isinstance(one, torch.Generator):
        before = one.get_state()
        one.manual_seed(random.getrandbits(32))
        return lambda: _put_back(one, before)
    return None


def _put_back(one: torch.Generator, state: torch.Tensor) -> None:
    one.set_state(state)
