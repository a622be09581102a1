"""Methods of other packages replaced for a while, and put back as they were."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

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
    handles = [register_module_forward_pre_hook(before)]
    if after is not None:
        handles.append(register_module_forward_hook(after, with_kwargs=True, always_call=True))
    for handle in handles:
        scope.callback(handle.remove)
        watching.at_moving_on.append(handle.remove)


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

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        return instead(original, *args, **kwargs)

    def put_back() -> None:
        if owner.__dict__.get(name) is not method:
            return
        if own is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, own)

    setattr(owner, name, method)
    scope.callback(put_back)
