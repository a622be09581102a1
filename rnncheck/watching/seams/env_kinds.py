"""Gymnasium's env classes and those made of them, the script's own too: heard of what they do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from rnncheck.watching.seams.patching import Instead, kinds_of, replace

_BASES = (gymnasium.Env, VectorEnv)


def hear_envs(scope: ExitStack, reset: Instead, step: Instead) -> None:
    """Until ``scope`` ends, ``reset`` and ``step`` stand in for those of all kinds of envs, of such
    that the script defines later on as well."""

    def open_kind(kind: type) -> None:
        for name, instead in (("reset", reset), ("step", step)):
            if name in kind.__dict__:
                replace(scope, kind, name, instead)

    for kind in kinds_of(*_BASES):
        open_kind(kind)
    for base in _BASES:
        _hear_of_kinds(scope, base, open_kind)


def _hear_of_kinds(scope: ExitStack, base: type, open_kind: Callable[[type], None]) -> None:
    before = base.__init_subclass__

    def opened(kind: Any, /, **kwargs: Any) -> None:
        inherited = getattr(before, "__func__", None)  # called for the kind, not its base
        before(**kwargs) if inherited is None else inherited(kind, **kwargs)
        open_kind(kind)

    base.__init_subclass__ = classmethod(opened)  # type: ignore[assignment]
    scope.callback(delattr, base, "__init_subclass__")
