"""An env of a class of the user's own, made of no library's, as gymnasium's and TorchRL's are."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torchrl.data import Binary, Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

from rnncheck.watching.forms.plain_calls import ENDS, OBSERVATION

_Array = np.ndarray[Any, Any]
_FLAGS = ("done", *ENDS[:2])
_REWARD = "reward"
_NUMBERS = "biuf"  # kinds of arrays that hold some
_BESIDE = (Mapping, list, type(None))  # what is told beside a step
# By gym's wrapper, by those of older trainers, by simulators of many envs at once.
_CUT = ("TimeLimit.truncated", "bad_transition", "time_outs", "timeouts", "timeout")
_FEWEST = 3  # parts of a step: what is shown, the reward, whether the episode is over
_WITH_ONE_BESIDE = 4
_DEEPEST = 2  # containers in containers in which an env may hold others: chosen


def as_shown(value: Any) -> Any:
    """Arrays of what an env shows, nobody else's, by name where it shows several; None where it is
    no numbers."""
    if isinstance(value, Mapping):
        parts = {str(name): as_shown(one) for name, one in value.items()}
        return parts if parts and all(one is not None for one in parts.values()) else None
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy().copy()
    try:
        found = np.array(value)
    except (TypeError, ValueError):  # such as lists of different lengths
        return None
    return found if found.dtype.kind in _NUMBERS and found.size else None


def shown_by_reset(found: Any) -> Any:
    """What ``reset`` showed, alone or ahead of what it told beside it; None where it is nothing, or
    a plain float, such as a rate that is scheduled."""
    if isinstance(found, float):
        return None
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping):
        return as_shown(found[0])
    return as_shown(found)


def step_of(found: Any) -> tuple[Any, ...] | None:
    """What ``step`` gave as gymnasium's gives it: of ``(shown, reward, done)``, of these and what
    it told beside them, whatever that is, of five parts, or of TorchRL's names for them. None where
    it is none of these."""
    found = _named_parts(found) if isinstance(found, Mapping) else found
    if not isinstance(found, tuple) or not _FEWEST <= len(found) <= 5:
        return None
    found = (*found[:-1], _by_name(found[-1]))
    told = found[-1] if isinstance(found[-1], Mapping) else {}
    flags = [_flags(one) for one in found[2:4] if not _is_beside(found, one)]
    shown, reward = as_shown(found[0]), as_shown(found[1])
    if shown is None or reward is None or isinstance(reward, dict) or not flags:
        return None
    if any(one is None or np.size(one) != reward.size for one in flags):
        return None
    over, cut = flags[0], flags[1] if len(flags) > 1 else None
    if cut is None:
        cut = np.asarray(_cut_by(found[-1], np.shape(over))) & np.asarray(over)
        over, cut = _as_told(np.asarray(over) & ~cut), _as_told(cut)
    single = isinstance(over, bool)
    return shown, float(reward.item()) if single else reward.reshape(-1), over, cut, dict(told)


def _named_parts(found: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Of a dict or a tensordict with a reward and flags, all else of which is shown."""
    flags = {name: _flags(found[name]) for name in _FLAGS if name in found}
    rest = {name: one for name, one in found.items() if name not in (_REWARD, *_FLAGS)}
    if _REWARD not in found or not flags or any(one is None for one in flags.values()):
        return None
    over = flags.get("terminated", flags.get("done"))
    if len(flags) == 1:
        return rest, found[_REWARD], over
    done = flags.get("done", over)
    return rest, found[_REWARD], over, flags.get("truncated", done & ~np.asarray(over)), {}


def tells_ends_by_one_flag(found: Any) -> bool:
    """Whether what ``step`` gave has no second flag, for episodes that a limit cuts, and says
    nothing of limits beside it."""
    found = _named_parts(found) if isinstance(found, Mapping) else found
    if not isinstance(found, tuple) or len(found) < _FEWEST:
        return False
    found = (*found[:-1], _by_name(found[-1]))
    flags = [one for one in found[2:4] if not _is_beside(found, one)]
    beside = found[-1] if isinstance(found[-1], (list, tuple)) else [found[-1]]
    told = (one for one in beside if isinstance(one, Mapping))
    return len(flags) == 1 and not any(name in one for one in told for name in _CUT)


def _by_name(told: Any) -> Any:
    """What an env told beside its step, by name also where that is a named tuple."""
    return told._asdict() if isinstance(told, tuple) and hasattr(told, "_asdict") else told


def _is_beside(found: tuple[Any, ...], part: Any) -> bool:
    """Whether it is none of the flags of a step: a fourth and last part is none, such as the number
    of a trial, where the third is made of bools and it is not."""
    if isinstance(part, _BESIDE):
        return True
    last = len(found) == _WITH_ONE_BESIDE and part is found[-1]
    return last and _are_bools(found[2]) and not _are_bools(part)


def _are_bools(value: Any) -> bool:
    found = as_shown(value)
    return isinstance(found, np.ndarray) and found.dtype.kind == "b"


def _cut_by(told: Any, shape: tuple[int, ...]) -> Any:
    """What an env told beside its step of the limits that cut episodes: for all envs, or in a list
    for each of them, by a name that wrappers have for that."""
    if isinstance(told, Mapping):
        named = [np.asarray(as_shown(told[name]), bool) for name in _CUT if name in told]
        each = [one.reshape(shape) for one in named if one.size == math.prod(shape)]
        return np.any(each, axis=0) if each else any(bool(one.any()) for one in named)
    of_envs = told if isinstance(told, (list, tuple)) and (len(told),) == shape else ()
    if not all(isinstance(one, Mapping) for one in of_envs):
        return False
    return [_cut_by(one, ()) for one in of_envs] or False


def _flags(value: Any) -> Any:
    """A bool, or an array ``[rows]`` of such; None where it is no flag."""
    found = as_shown(value)
    if not isinstance(found, np.ndarray) or not bool(((found == 0) | (found == 1)).all()):
        return None
    return _as_told(found.astype(bool))


def _as_told(flags: _Array) -> Any:
    return bool(flags) if flags.ndim == 0 else flags.reshape(-1)


def holds_another(env: Any) -> bool:
    """Whether it holds an env of a library's, which is watched by itself, or networks: those that
    act hold these."""
    known = (gymnasium.Env, VectorEnv, EnvBase, nn.Module)
    return any(isinstance(one, known) for one in _held(env, _DEEPEST))


def wrapped_env(env: Any) -> gymnasium.Env[Any, Any] | None:
    """The one env of gymnasium's that it holds and may show in another way, as a wrapper that is
    none of gymnasium's; None where it holds several, networks, or another library's."""
    own = list(getattr(env, "__dict__", {}).values())
    inside = [one for part in own if isinstance(part, (list, tuple)) for one in part]
    inside += [one for part in own if isinstance(part, dict) for one in part.values()]
    found = [one for one in own if isinstance(one, gymnasium.Env)]
    if len(found) != 1 or any(isinstance(one, gymnasium.Env) for one in inside):
        return None
    others = any(isinstance(one, (VectorEnv, EnvBase, nn.Module)) for one in _held(env, _DEEPEST))
    return None if others else found[0]


def _held(owner: Any, deep: int) -> Iterator[Any]:
    inner = owner if isinstance(owner, (list, tuple, dict)) else getattr(owner, "__dict__", {})
    for one in inner.values() if isinstance(inner, dict) else inner:
        yield one
        if deep and (isinstance(one, (list, tuple, dict)) or _may_be_env(one)):
            yield from _held(one, deep - 1)


def _may_be_env(value: Any) -> bool:
    return hasattr(value, "step") and hasattr(value, "reset")


class OwnEnv(gymnasium.Env[Any, Any]):
    """A user's env as gymnasium's are. What it takes and shows is known by what it was given and
    has shown: ``rows`` of envs at once, None for one."""

    def __init__(self, own: Any) -> None:
        self.own = own
        self.rows: int | None = None
        self.one_flag = False  # tells of every end, by whatever it is
        self._shown: Any = None
        self._taken: Any = None
        self._low, self._high = np.zeros(()), np.zeros(())

    def notes(self, shown: Any, action: Any = None, over: Any = None) -> None:
        """It showed this; ``action`` led there, behind which the episodes were ``over`` or not."""
        self._shown = shown
        if action is None:
            return
        taken = as_shown(action)
        first = self._taken is None
        self._taken = action
        self._low = taken if first else np.minimum(self._low, taken)
        self._high = taken if first else np.maximum(self._high, taken)
        self.rows = None if isinstance(over, bool) else int(np.size(over))

    @property
    def observation_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """Of any numbers, in the form of what it showed."""
        return _space_like(self._shown)

    @property
    def action_space(self) -> spaces.Space[Any] | None:  # type: ignore[override]
        """Its own if that is one of gymnasium's, else of what it was given; None until then."""
        told = getattr(self.own, "action_space", None)
        if isinstance(told, spaces.Space):
            return told
        if self._taken is None:
            return None
        low, high = self._low, self._high
        if low.dtype.kind == "f":
            return spaces.Box(low - (low == high), high, dtype=low.dtype.type)
        count = np.maximum(high.astype(int) + 1, 2)
        return (
            spaces.Discrete(int(count.item())) if count.size == 1 else spaces.MultiDiscrete(count)
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begins anew; ``seed`` is for its own generators of random numbers."""
        if seed is not None:
            _seed(self.own, seed)
            if (inner := wrapped_env(self.own)) is not None:
                inner.reset(seed=seed)
        self._shown = shown_by_reset(self.own.reset())
        return self._shown, {}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """With the action in the form that the script gives it. Raises ValueError where what the
        env gives is no step."""
        found = step_of(self.own.step(_in_form(action, self._taken)))
        if found is None:
            raise ValueError(f"{type(self.own).__name__}.step gave no step")
        shown, reward, over, cut, told = found
        return shown, reward, over, cut, told


def is_own_env(env: Any) -> bool:
    """Whether it, or one of those that are stepped by turns, is of the user's own class."""
    return any(isinstance(one, OwnEnv) for one in (env if isinstance(env, tuple) else (env,)))


def _space_like(shown: Any) -> spaces.Space[Any]:
    if isinstance(shown, dict):
        return spaces.Dict({name: _space_like(one) for name, one in shown.items()})
    kind = shown.dtype
    if kind.kind == "f":
        return spaces.Box(-np.inf, np.inf, shown.shape, kind.type)
    if kind.kind == "b":
        return spaces.MultiBinary(shown.shape or 1)
    limits = np.iinfo(kind)
    return spaces.Box(limits.min, limits.max, shown.shape, kind.type)


def _in_form(action: Any, like: Any) -> Any:
    """The action in the form of one that the env was given."""
    if isinstance(like, Tensor):
        return torch.as_tensor(np.asarray(action)).to(like.dtype).reshape(like.shape)
    whole = np.asarray(action)
    if isinstance(like, np.ndarray):
        return whole.astype(like.dtype).reshape(like.shape)
    if isinstance(like, (list, tuple)):
        return type(like)(whole.reshape(-1).tolist())
    return type(like)(whole.item())


def _seed(own: Any, seed: int) -> None:
    """Its generators, and those of what it holds, begin anew."""
    for one in _held(own, _DEEPEST):
        if isinstance(one, np.random.Generator):
            one.bit_generator.state = type(one.bit_generator)(seed).state
        elif isinstance(one, (np.random.RandomState, random.Random)):
            one.seed(seed)
        elif isinstance(one, torch.Generator):
            one.manual_seed(seed)


class OwnRows(EnvBase):  # type: ignore[misc]
    """A user's env of several rows, each of which begins anew by itself, as one of TorchRL's."""

    def __init__(self, env: OwnEnv) -> None:
        assert env.rows is not None
        self._lead = (env.rows,)
        super().__init__(device=torch.get_default_device(), batch_size=self._lead)
        self._env, self._now = env, env.reset()[0]
        begun = self._entries(self._now)
        self.observation_spec = Composite(
            {name: Unbounded(one.shape, dtype=one.dtype) for name, one in begun.items()},
            shape=self._lead,
        )
        self.action_spec = _action_spec(env.action_space, self._lead)
        self.reward_spec = Unbounded((*self._lead, 1))
        self.full_done_spec = Composite(
            {name: Binary(1, (*self._lead, 1), dtype=torch.bool) for name in _FLAGS},
            shape=self._lead,
        )

    def _entries(self, shown: Any) -> dict[str, Tensor]:
        named = shown if isinstance(shown, dict) else {OBSERVATION: shown}
        return {name: torch.as_tensor(one) for name, one in named.items()}

    def _made(self, over: Any, cut: Any, **more: Tensor) -> TensorDictBase:
        flags = dict(zip(_FLAGS, (over | cut, over, cut), strict=True))
        entries = {
            name: torch.as_tensor(one).reshape(*self._lead, 1) for name, one in flags.items()
        }
        told = self.observation_spec.keys()  # what steps show beside that is none of it
        shown = {name: one for name, one in self._entries(self._now).items() if name in told}
        made = {**shown, **entries, **more}
        return TensorDict(made, self._lead).to(self.device)

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        begins = None if tensordict is None else tensordict.get("_reset", None)
        if begins is None or bool(begins.all()):
            self._now = self._env.reset()[0]
        none = np.zeros(self._lead, dtype=bool)
        return self._made(none, none)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        action = tensordict.get("action").detach().cpu().numpy()
        self._now, reward, over, cut, _ = self._env.step(action)
        given = torch.as_tensor(reward).reshape(*self._lead, 1).float()
        return self._made(over, cut, reward=given)

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            _seed(self._env.own, seed)


def _action_spec(space: spaces.Space[Any] | None, lead: tuple[int, ...]) -> Any:
    """Of all rows: ``space`` is theirs together, or that of one of them."""
    if isinstance(space, spaces.Discrete):
        return Categorical(int(space.n), shape=lead)
    if isinstance(space, spaces.MultiDiscrete):
        whole = tuple(np.shape(space.nvec))
        shape = whole if whole[:1] == lead else (*lead, *whole)
        return Categorical(int(np.max(space.nvec)), shape=shape)
    if not isinstance(space, spaces.Box):
        raise ValueError(f"its action space is a {type(space).__name__}")
    shape = space.shape if space.shape[:1] == lead else (*lead, *space.shape)
    return Bounded(float(space.low.min()), float(space.high.max()), shape=shape)
