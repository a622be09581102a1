"""The seam of a loop over the steps of an env of a class of the user's own, which is made of no
library's: it has ``reset`` and ``step``, and that is all that is known of it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType, FunctionType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from torch import nn

from rnncheck.pipeline.guard.user_frames import is_user_file
from rnncheck.watching.forms.own_env import (
    OwnEnv,
    as_shown,
    holds_another,
    shown_by_reset,
    step_of,
    tells_ends_by_one_flag,
    wrapped_env,
)
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.new_classes import defined_in, hear_classes
from rnncheck.watching.seams.patching import replace
from rnncheck.watching.seams.plain_steps import PlainSteps

_METHODS = ("reset", "step")
_OTHERS = (nn.Module, gymnasium.Env, VectorEnv)


def own_env_seams(watching: Watching, scope: ExitStack, steps: PlainSteps) -> None:
    """Open the seams until ``scope`` ends, at the classes that there are and those that come."""
    noting = OwnEnvs(watching, steps)
    for module in list(sys.modules.values()):
        for kind in defined_in(module):
            noting.open(scope, kind)
    hear_classes(scope, lambda kind: noting.open(scope, kind))


class OwnEnvs:
    """Tells of the steps as of those of a plain env. It never raises into the script: it looks no
    longer then."""

    def __init__(self, watching: Watching, steps: PlainSteps) -> None:
        self._watching, self._steps = watching, steps
        self._known = dict[int, OwnEnv]()  # by the id of the user's, which each holds
        self._told = dict[int, tuple[Any, Any]]()  # envs, and what others of their methods showed
        self._instead = {"reset": self.reset, "step": self.stepped}
        self._opened = set[tuple[type, str]]()
        self._others = set[type]()  # that only look like envs
        self._over = False

    def open(self, scope: ExitStack, kind: type) -> None:
        """Hear of what envs of this kind do, if it is one."""
        if not all(callable(getattr(kind, name, None)) for name in _METHODS):
            return
        if issubclass(kind, _OTHERS):
            return
        for base in kind.__mro__:
            for name, own in list(base.__dict__.items()):
                if not isinstance(own, FunctionType) or (base, name) in self._opened:
                    continue
                asked = name in self._instead or (name[0] != "_" and _takes_nothing(own))
                if asked and is_user_file(own.__code__.co_filename):
                    self._opened.add((base, name))
                    replace(scope, base, name, self._instead.get(name, self.told))

    def reset(self, original: Callable[..., Any], env: Any, *args: Any, **kwargs: Any) -> Any:
        """``env.reset()``."""
        looks = self._looks(env)
        with self._harmless():
            if looks and id(env) not in self._known and _is_left_alone(env):
                self._others.add(type(env))  # what it holds is heard of by itself
        if not looks or type(env) in self._others:
            return original(env, *args, **kwargs)
        self._steps.reset_inside = None
        with self._watching.inside():
            found = original(env, *args, **kwargs)
        with self._harmless():
            self._begins(env, shown_by_reset(found))
        return found

    def _begins(self, env: Any, shown: Any) -> None:
        if id(env) not in self._known:
            inner = wrapped_env(env) is not None
            # It may have made what it holds meanwhile.
            if shown is None or _is_left_alone(env) or (inner and self._shows_as(shown)):
                self._others.add(type(env))
                self._hand_on()
                return
            self._known[id(env)] = OwnEnv(env)
        if shown is not None:
            self._known[id(env)].notes(shown)
            self._steps.begins(self._known[id(env)], shown)

    def _shows_as(self, shown: Any) -> bool:
        """Whether it shows what the env inside it does, which then is heard of by itself."""
        inside = self._steps.reset_inside
        return inside is not None and _are_same(shown_by_reset(inside[1]), shown)

    def _hand_on(self) -> None:
        """What the env inside has shown meanwhile is that one's."""
        if self._steps.reset_inside is not None:
            inner, seen = self._steps.reset_inside
            self._steps.begins(inner, seen[0] if isinstance(seen, tuple) else seen)

    def told(self, original: Callable[..., Any], env: Any, *args: Any, **kwargs: Any) -> Any:
        """Any other method: what an env shows that begins by itself may be asked for, where it is
        never reset."""
        found = original(env, *args, **kwargs)
        if id(env) not in self._known and not args and not kwargs and self._looks(env):
            with self._harmless():
                shown = None if _is_left_alone(env) else shown_by_reset(found)
                if shown is not None:
                    self._told[id(env)] = env, shown
                    self._steps.awaited = True
        return found

    def stepped(self, original: Callable[..., Any], env: Any, *args: Any, **kwargs: Any) -> Any:
        """``env.step(action)``."""
        known = self._known.get(id(env)) if self._looks(env) else None
        if known is None:
            return self._first(original, env, *args, **kwargs)
        given = [*args, *kwargs.values()]
        note = self._about_to_step(known, given, sys._getframe(2))
        with self._watching.inside():
            found = original(env, *args, **kwargs)
        with self._harmless():
            known.one_flag = tells_ends_by_one_flag(found)
            self._gave(known, given, note, step_of(found))
        return found

    def _about_to_step(self, known: OwnEnv, given: list[Any], frame: FrameType) -> Any:
        with self._harmless():
            if len(given) == 1 and (taken := as_shown(given[0])) is not None:
                taken = taken.item() if taken.ndim == 0 else taken
                return self._steps.about_to_step(known, frame, lambda: taken)
        return None

    def _first(self, original: Callable[..., Any], env: Any, *args: Any, **kwargs: Any) -> Any:
        """A step of an env that was not reset: what it showed last, in the form in which this step
        shows something, is what it began with."""
        if self._told.get(id(env), (None,))[0] is not env or not self._looks(env, deep=4):
            return original(env, *args, **kwargs)
        with self._watching.inside():
            found = original(env, *args, **kwargs)
        shown, given = self._told.pop(id(env))[1], [*args, *kwargs.values()]
        with self._harmless():
            step = step_of(found)
            if step is not None and _in_one_form(step[0], shown):
                self._begins(env, shown)
            if id(env) in self._known:
                known = self._known[id(env)]
                known.one_flag = tells_ends_by_one_flag(found)
                note = self._about_to_step(known, given, sys._getframe(3))
                self._gave(known, given, note, step)
        return found

    def _gave(self, known: OwnEnv, given: list[Any], note: Any, step: Any) -> None:
        if step is None or len(given) != 1:
            self._others.add(type(known.own))
            self._steps.forget(known)
            return
        self._watching.stepped()
        known.notes(step[0], given[0], step[2])
        if note is not None:
            note(step)

    def _looks(self, env: Any, deep: int = 3) -> bool:
        """Whether it is the script that calls, and not another env of its own."""
        if self._over or self._watching.is_inside or not self._watching.looks:
            return False
        theirs = is_user_file(sys._getframe(deep).f_code.co_filename)
        return theirs and type(env) not in self._others

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        try:
            yield
        except Exception:  # what a script's env gives may be anything
            self._over = True


def _takes_nothing(method: FunctionType) -> bool:
    """Whether it gets its object alone: one that acts or learns is no way of showing something."""
    code = method.__code__
    several = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    return code.co_argcount == 1 and not code.co_kwonlyargcount and not code.co_flags & several


def _is_left_alone(env: Any) -> bool:
    return holds_another(env) and wrapped_env(env) is None


def _in_one_form(one: Any, other: Any) -> bool:
    """Whether two things that an env shows have the same names and shapes."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_in_one_form(one[k], other[k]) for k in one)
    if one is None or isinstance(one, dict) or other is None or isinstance(other, dict):
        return False
    return bool(one.shape == other.shape and one.dtype == other.dtype)


def _are_same(one: Any, other: Any) -> bool:
    """Whether an env shows the same numbers, by name where it shows several."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_are_same(one[k], other[k]) for k in one)
    if one is None or isinstance(one, dict) or isinstance(other, dict):
        return False
    return np.array_equal(one.ravel(), other.ravel())
