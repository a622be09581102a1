"""Methods of other packages replaced for a while, and put back as they were."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

_ABSENT = object()
# What stands in for a method: it gets the original, and calls it.
Instead = Callable[..., Any]


def replace(scope: ExitStack, owner: type, name: str, instead: Instead) -> None:
    """Until ``scope`` ends, ``owner.name(*args)`` is ``instead(original, *args)``.

    A method that ``owner`` inherits is its own meanwhile, and inherited again afterwards.
    """
    own = owner.__dict__.get(name, _ABSENT)
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        return instead(original, *args, **kwargs)

    setattr(owner, name, method)
    if own is _ABSENT:
        scope.callback(delattr, owner, name)
    else:
        scope.callback(setattr, owner, name, own)
