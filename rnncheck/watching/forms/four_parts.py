"""Envs of gymnasium's whose outermost wrapper gives ``(shown, reward, done, info)``, as gym's envs
did, and may show what a reset shows by itself: by what an env inside of it gave, a step of theirs
tells ends from time limits."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import gymnasium
import numpy as np

OLD_PARTS = 4


def five_parts(found: tuple[Any, ...], inside: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """A step of four parts as one of five, ``inside`` of which an env gave five. Where that tells
    of no end there, and the step does, it is one of the wrapper's own."""
    shown, reward, done, info = found
    told = info if isinstance(info, dict) else {}
    over, cut = (False, False) if inside is None else (bool(inside[2]), bool(inside[3]))
    if bool(done) is not (over or cut):
        cut = bool(done) and bool(told.get("TimeLimit.truncated", False))
        over = bool(done) and not cut
    return shown, reward, over, cut, told


class FiveParts(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Such an env, with steps of five parts: what is inside of a copy of it is noted."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._inside: list[tuple[Any, ...]] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """By the way that gyms had before seeds were arguments; what is inside gets these first."""
        if seed is not None:
            with suppress(TypeError):  # one of an older gym takes none
                self.env.unwrapped.reset(seed=seed)
        found = self.env.reset()
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict):
            return found
        return found, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """With what stands inside of the last part."""
        if self._inside is None:
            self._inside = []
            _note(self.env, self._inside)
        self._inside.clear()
        found = self.env.step(action)
        if len(found) == OLD_PARTS:
            found = five_parts(found, self._inside[-1] if self._inside else None)
        shown, reward, over, cut, told = found
        return shown, reward, bool(np.any(over)), bool(np.any(cut)), told


class _Noted(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: gymnasium.Env[Any, Any], into: list[tuple[Any, ...]]) -> None:
        super().__init__(env)
        self._into = into

    def step(self, action: Any) -> Any:
        found = self.env.step(action)
        if len(found) > OLD_PARTS:
            self._into.append(found)
        return found


def _note(env: Any, into: list[tuple[Any, ...]]) -> None:
    """Steps of all that are inside, the outermost last."""
    while isinstance(env, gymnasium.Wrapper):
        inner = env.env
        env.env, env = _Noted(inner, into), inner
