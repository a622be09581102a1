"""How the script made its losses: TorchRL's wrap what they are given in functions that only their
constructor can make."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from torchrl.objectives import LossModule

from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.patching import kinds_of, replace
from rnncheck.watching.seen import Making

_LATER = ("set_keys", "make_value_estimator")


def making_seams(watching: Watching, scope: ExitStack) -> None:
    """Open the seams until ``scope`` ends."""
    noting = _Makings(watching)
    meta = type(LossModule)
    if meta.__module__.startswith("torchrl."):  # else it is the class of other classes as well
        replace(scope, meta, "__call__", noting.made)
    for kind in kinds_of(LossModule):
        for name in _LATER:
            if name in kind.__dict__:
                replace(scope, kind, name, noting.later(name))


class _Makings:
    """Notes the arguments of the outermost calls."""

    def __init__(self, watching: Watching) -> None:
        self._watching, self._depth = watching, 0

    def made(self, original: Callable[..., Any], kind: type, *args: Any, **kwargs: Any) -> Any:
        """``SomeLoss(...)``."""
        made = self._inside(original, kind, *args, **kwargs)
        if not self._depth and not self._watching.enough:
            self._watching.seen.makings[id(made)] = Making(made, args, kwargs)
        return made

    def later(self, name: str) -> Callable[..., Any]:
        """``loss.set_keys(...)`` and the like."""

        def call(original: Callable[..., Any], loss: Any, *args: Any, **kwargs: Any) -> Any:
            making = self._watching.seen.makings.get(id(loss))
            if making is not None and not self._depth and self._watching.looks:
                making.calls.append((name, args, kwargs))
            return self._inside(original, loss, *args, **kwargs)

        return call

    def _inside(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._depth += 1
        try:
            return original(*args, **kwargs)
        finally:
            self._depth -= 1
