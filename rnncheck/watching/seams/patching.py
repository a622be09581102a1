"""Methods of other packages replaced for a while, and put back as they were.

What is compiled must hold nothing of this: it would be cut into other graphs, and a mode that is
set in one of them may not be known in another. It runs as it would alone, and nothing in it is
seen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from torch import nn
from torch.compiler import is_compiling
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from rnncheck.watching.observer import Watching

_ABSENT = object()
# What stands in for a method: it gets the original, and calls it.
Instead = Callable[..., Any]


def hear_modules(
    watching: Watching,
    scope: ExitStack,
    before: Callable[[nn.Module, Any], None],
    after: Callable[..., None] | None = None,
) -> None:
    """Until ``scope`` ends, or the script has moved on, modules tell that they are about to run,
    and that they have: ``after(module, by place, by name, result)``; where they raised,
    ``after(module, by place, None)``, as torch calls it there."""
    if not watching.before_modules:
        _hear_all(watching, scope)
    watching.before_modules.append(before)
    if after is not None:
        watching.after_modules.append(after)


def _hear_all(watching: Watching, scope: ExitStack) -> None:
    befores, afters = watching.before_modules, watching.after_modules

    def called(module: nn.Module, inputs: Any) -> None:
        if not is_compiling():
            for before in befores:
                before(module, inputs)

    def gave(module: nn.Module, inputs: Any, *told: Any) -> None:
        if not is_compiling():
            for after in afters:
                after(module, inputs, *told)

    handles = [
        register_module_forward_pre_hook(called),
        register_module_forward_hook(gave, with_kwargs=True, always_call=True),
    ]
    for handle in handles:
        scope.callback(handle.remove)
        watching.at_moving_on.append(handle.remove)


def hear_calls(scope: ExitStack, before: Callable[[nn.Module, Any], None]) -> RemovableHandle:
    """The same of one that is of use for a while; what ends it before ``scope`` does."""

    def called(module: nn.Module, inputs: Any) -> None:
        if not is_compiling():
            before(module, inputs)

    handle = register_module_forward_pre_hook(called)
    scope.callback(handle.remove)
    return handle


def kinds_of(*bases: type) -> list[type]:
    """These classes and those made of them, as far as they are imported, the bases first."""
    found = list(bases)
    for one in found:
        below: list[type] = type.__subclasses__(one)
        found += [kind for kind in below if kind not in found]
    return found


def replace(scope: ExitStack, owner: type, name: str, instead: Instead) -> None:
    """Until ``scope`` ends, ``owner.name(*args)`` is ``instead(original, *args)``.

    A method that ``owner`` inherits is its own meanwhile, and inherited again afterwards. What the
    script has put in its place since stays there.
    """
    own = owner.__dict__.get(name, _ABSENT)
    original = getattr(owner, name)

    def method(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        return instead(original, *args, **kwargs)

    # What is compiled is kept by code, and so often at most: each has one of its own.
    method.__code__ = method.__code__.replace(co_name=f"{owner.__name__}_{name}")
    functools.update_wrapper(method, original)

    def put_back() -> None:
        if owner.__dict__.get(name) is not method:
            return
        if own is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, own)

    setattr(owner, name, method)
    scope.callback(put_back)
