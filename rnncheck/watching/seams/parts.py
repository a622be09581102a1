"""How the script made what a spec names: with which arguments its own lines called the constructors
of TorchRL, of torch and of its own modules."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import CodeType, FrameType
from typing import Any

import torchrl._utils
from tensordict import TensorDictBase
from torch import nn
from torchrl.collectors import BaseCollector
from torchrl.data import ReplayBuffer
from torchrl.data.replay_buffers import Sampler, Storage, Writer
from torchrl.envs import EnvBase
from torchrl.objectives import TargetNetUpdater

from rnncheck.pipeline.guard.user_frames import is_user_file
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.patching import kinds_of, replace
from rnncheck.watching.seams.returns import Returns
from rnncheck.watching.seen import Making, copy_now

MADE_THERE = ("torch.", "tensordict.", "torchrl.")
_MOST_FRAMES = 10  # of the script's: a function that makes an env seldom calls as many
_BASES = (nn.Module, EnvBase, BaseCollector, ReplayBuffer, Storage, Sampler, Writer)


def parts_seams(watching: Watching, scope: ExitStack) -> None:
    """Open the seams until ``scope`` ends."""
    noting = _Parts(watching, Returns(watching, scope))
    for kind in _kinds():
        if "__init__" in kind.__dict__:
            replace(scope, kind, "__init__", noting.made)
    replace(scope, nn.Module, "__init__", noting.begun)
    for kind in kinds_of(ReplayBuffer):
        if "sample" in kind.__dict__:
            replace(scope, kind, "sample", noting.sampled)


def _kinds() -> list[type]:
    """The libraries' own classes, as far as they are imported."""
    found = [kind for base in (*_BASES, TargetNetUpdater) for kind in kinds_of(base)]
    ours = (one for one in dict.fromkeys(found) if one is not nn.Module)
    return [one for one in ours if f"{one.__module__}.".startswith(MADE_THERE)]


class _Parts:
    """Notes the constructors that the script called, and the first samples that it drew."""

    def __init__(self, watching: Watching, returns: Returns) -> None:
        self._watching, self._returns = watching, returns

    def made(self, original: Callable[..., None], made: Any, *args: Any, **kwargs: Any) -> None:
        """``SomeClass(...)``; what a library makes for itself is part of what it was made for."""
        parts = self._watching.seen.parts
        noted = not self._watching.enough and id(made) not in parts
        if noted and _is_the_scripts(sys._getframe(2)):
            own = _own_arguments(made, sys._getframe(2))
            parts[id(made)] = Making(made, args, kwargs) if own is None else own
            parts[id(made)].inside = _under_way(sys._getframe(2))
            self._returns.listen()
        original(made, *args, **kwargs)

    def begun(self, original: Callable[..., None], made: Any, *args: Any, **kwargs: Any) -> None:
        """``super().__init__()`` of a module of the script's own."""
        parts = self._watching.seen.parts
        if not self._watching.enough and id(made) not in parts:
            own = _own_arguments(made, sys._getframe(2))
            if own is not None:
                parts[id(made)] = own
                self._returns.listen()
        original(made, *args, **kwargs)

    def sampled(self, original: Callable[..., Any], buffer: Any, *args: Any, **kwargs: Any) -> Any:
        """``buffer.sample()``."""
        looks = self._watching.looks and _is_the_scripts(sys._getframe(2))
        with self._watching.inside():
            drawn = original(buffer, *args, **kwargs)
        seen = self._watching.seen
        if looks and seen.sampled is None and isinstance(drawn, TensorDictBase):
            with suppress(Exception):  # whatever a buffer of the user's returns
                seen.sampled = (buffer, copy_now(drawn))
        return drawn


def _is_the_scripts(frame: FrameType | None) -> bool:
    """Whether a line of the user's called; TorchRL's metaclasses stand between."""
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        code = frame.f_code
        if code.co_name != "__call__" and code.co_filename != torchrl._utils.__file__:
            return False
        frame = frame.f_back
    return frame is not None


def _under_way(frame: FrameType | None) -> tuple[CodeType, ...]:
    """The script's functions on the stack, innermost first."""
    found = list[CodeType]()
    while frame is not None and len(found) < _MOST_FRAMES:
        found += [frame.f_code] if is_user_file(frame.f_code.co_filename) else []
        frame = frame.f_back
    return tuple(found)


def _own_arguments(made: Any, frame: FrameType | None) -> Making | None:
    """What the script's own constructor of ``made`` was called with, where it is under way."""
    code = getattr(type(made).__init__, "__code__", None)
    while code is not None and frame is not None and frame.f_code.co_name == "__init__":
        told = inspect.getargvalues(frame)
        if frame.f_code is code and told.args and told.locals.get(told.args[0]) is made:
            if not is_user_file(code.co_filename) or told.locals.get(told.varargs or ""):
                return None
            given = {name: told.locals[name] for name in told.args[1:] if name in told.locals}
            return Making(made, (), given | told.locals.get(told.keywords or "", {}), own=True)
        frame = frame.f_back
    return None
