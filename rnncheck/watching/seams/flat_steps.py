"""The seam of a loop over the steps of one of TorchRL's envs in which no module acts on its
tensordicts: its entries are a plain env's."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from rnncheck.pipeline.guard.user_frames import is_user_file
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.watching.forms.flat_env import FlatKeys, flat_keys
from rnncheck.watching.forms.plain_policy import PlainEnv
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.patching import replace
from rnncheck.watching.seams.plain_steps import PlainSteps
from rnncheck.watching.seams.stepping import Stepping, filled_by_loop, torchrl_envs
from rnncheck.watching.seen import Acting

_METHODS = ("step", "step_and_maybe_reset")
_OURS = "rnncheck."


def flat_seams(watching: Watching, scope: ExitStack, steps: PlainSteps, stepping: Stepping) -> None:
    """Open the seams until ``scope`` ends, around those at which modules that act are noted."""
    noting = FlatSteps(watching, steps, stepping)
    watching.at_a_backward.insert(0, noting.backward)
    for kind in torchrl_envs():
        for name in _METHODS:
            if name in kind.__dict__:
                replace(scope, kind, name, noting.stepped)
    replace(scope, EnvBase, "reset", noting.reset)


class FlatSteps:
    """Tells of the steps as of those of a plain env. It never raises into the script: it looks no
    longer then."""

    def __init__(self, watching: Watching, steps: PlainSteps, stepping: Stepping) -> None:
        self._watching, self._steps, self._stepping = watching, steps, stepping
        self._keys = dict[int, FlatKeys | None]()  # by the env's id
        self._filled = dict[int, bool]()  # by the id of who acts
        self._over = False

    def reset(self, original: Callable[..., Any], env: EnvBase, *args: Any, **kwargs: Any) -> Any:
        """``env.reset()``."""
        looks = self._looks(env, sys._getframe(2))
        found = original(env, *args, **kwargs)
        if looks:
            with self._harmless():
                keys = self._keys_of(env, found)
                if keys is not None:
                    self._steps.begins(env, keys.shows(found, _lead(env)))
        return found

    def stepped(self, original: Callable[..., Any], env: EnvBase, data: Any, *more: Any) -> Any:
        """``env.step(data)`` or ``env.step_and_maybe_reset(data)``."""
        frame, note = sys._getframe(2), None
        keys = self._keys.get(id(env)) if self._looks(env, frame) else None
        if keys is not None:
            with self._harmless():
                note = self._about_to_step(env, keys, data, frame)
        found = original(env, data, *more)
        if keys is not None and note is not None and self._looks(env, frame):
            with self._harmless():
                step = found[0] if isinstance(found, tuple) else found
                note(_gave(keys, step.get("next"), _lead(env)))
        return found

    def _about_to_step(self, env: EnvBase, keys: FlatKeys, data: Any, frame: FrameType) -> Any:
        if keys.action not in tensor_keys(data):
            return None
        self._steps.goes_on(env, keys.shows(data, _lead(env)))
        action = functools.partial(_array, data.get(keys.action))
        return self._steps.about_to_step(env, frame, action, keys.action)

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        try:
            yield
        except Exception:  # what a script's env shows may be anything
            self._over = True

    def _looks(self, env: EnvBase, frame: FrameType) -> bool:
        """Whether it is the script that calls, and nobody acts who is known."""
        if self._over or not self._watching.looks or not _is_theirs(frame):
            return False
        known = any(self._is_known(one) for one in self._watching.seen.acting)
        if known:
            self._steps.forget(env)
        return not known

    def _keys_of(self, env: EnvBase, begun: TensorDictBase) -> FlatKeys | None:
        """Where its entries are, of which its reset gave some."""
        if id(env) not in self._keys:
            self._keys[id(env)] = flat_keys(env, begun)
        return self._keys[id(env)]

    def _is_known(self, acting: Acting) -> bool:
        """Whether it needs nothing that the loop itself hands on."""
        if isinstance(acting.make_env, PlainEnv) or acting.kind != "steps":
            return not isinstance(acting.make_env, PlainEnv)
        if id(acting) not in self._filled:
            self._filled[id(acting)] = bool(filled_by_loop(acting))
        return not self._filled[id(acting)]

    def backward(self, _frame: FrameType, _loss: Any) -> None:
        """``loss.backward()``: who has acted is known now."""
        for one in [one for one in self._watching.seen.acting if not self._is_known(one)]:
            if isinstance(one.make_env, PlainEnv):
                continue
            if self._stepping.hands_on(one):
                self._stepping.forget(one)
            else:
                self._steps.forget(one.env)


def _is_theirs(frame: FrameType | None) -> bool:
    """Whether it is a frame of the user's, or what stands in for methods lies between."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
        frame = frame.f_back
    return frame is not None and is_user_file(frame.f_code.co_filename)


def _lead(env: EnvBase) -> tuple[int, ...]:
    return tuple(env.batch_size)


def _array(value: Tensor) -> Any:
    return value.detach().cpu().numpy().copy()


def _gave(keys: FlatKeys, after: TensorDictBase, lead: tuple[int, ...]) -> tuple[Any, ...]:
    """As gymnasium's ``step`` gives it."""
    reward = _array(after.get(keys.reward)).reshape(lead)
    return keys.shows(after, lead), reward, *keys.ends(after, lead), {}
