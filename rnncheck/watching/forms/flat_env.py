"""One of TorchRL's envs as gymnasium's are: what it shows, one action, a reward and two flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Binary, Composite, Unbounded
from torchrl.envs import EnvBase, TensorDictPrimer, TransformedEnv

from rnncheck.pipeline.keys import Key, as_key, tensor_keys
from rnncheck.watching.envs import env_like
from rnncheck.watching.forms.plain_calls import ACTION, ENDS, OBSERVATION
from rnncheck.watching.forms.shown_entries import ShownAs

_FLAGS = ("done", *ENDS[:2])
_REWARD: Key = ("reward",)


@dataclass(frozen=True)
class FlatKeys:
    """Where its entries are that a plain env has too."""

    shown: tuple[Key, ...]
    action: Key
    reward: Key
    flags: Mapping[str, Key]  # of ``done``, ``terminated`` and ``truncated`` those that it has

    def shows(self, td: TensorDictBase, lead: tuple[int, ...]) -> Any:
        """What is shown, as arrays ``[*lead, ...]``: one, or several by their names."""
        found = {".".join(key): _array(td, key, lead) for key in self.shown}
        return found if len(found) > 1 else next(iter(found.values()))

    def ends(self, td: TensorDictBase, lead: tuple[int, ...]) -> tuple[Any, Any]:
        """Whether it terminated and whether it was truncated, ``[*lead]`` each."""
        held = {name: _array(td, key, lead).reshape(lead) for name, key in self.flags.items()}
        done = held.get("done", np.zeros(lead, dtype=bool))
        terminated = held.get("terminated", done)
        return terminated, held.get("truncated", done & ~terminated)


def _array(td: TensorDictBase, key: Key, lead: tuple[int, ...]) -> Any:
    value: Tensor = td.get(key)
    whole = value.detach().cpu().numpy()
    return np.array(whole.reshape(*lead, *whole.shape[td.batch_dims :]))


def flat_keys(env: EnvBase, begun: TensorDictBase) -> FlatKeys | None:
    """Those of an env whose reset gave ``begun``; None where it has more than a plain one: several
    actions, agents, or more than one dimension. Its specs are not asked what it shows: TorchRL
    makes them when they are asked for, and a primer then takes them for final."""
    actions, there = env.action_keys, tensor_keys(begun)
    flags = {name: (name,) for name in _FLAGS if (name,) in there}
    skip = {*flags.values(), *_primed(env)}
    shown = [key for key in there if key not in skip and begun.get(key).dtype != torch.bool]
    if len(actions) != 1 or not shown or not flags or begun.batch_dims > 1:
        return None
    return FlatKeys(tuple(shown), as_key(actions[0]), _REWARD, flags)


def _primed(env: EnvBase) -> set[Key]:
    found = set[Key]()
    while isinstance(env, TransformedEnv):
        primers = [one for one in env.transform.modules() if isinstance(one, TensorDictPrimer)]
        found |= {as_key(key) for one in primers for key in one.primers.keys(True, True)}
        env = env.base_env
    return found


@dataclass(frozen=True)
class WholeEnv:
    """Makes copies of one of TorchRL's envs, each as a ``FlatEnv``."""

    env: EnvBase

    def __call__(
        self, batched: bool, part: tuple[int, ...] | None, shown: ShownAs | None
    ) -> FlatEnv:
        """One of them. Raises ValueError where it has entries that a plain env has not."""
        return FlatEnv(env_like(self.env), batched=batched, part=part, shown=shown)


class FlatEnv(EnvBase):  # type: ignore[misc]
    """``env`` with the entries of a plain one: ``batched`` with one dimension of envs, else with
    none. ``part`` of the numbers that it shows are shown, or the entries ``shown``."""

    def __init__(
        self,
        env: EnvBase,
        *,
        batched: bool,
        part: tuple[int, ...] | None = None,
        shown: ShownAs | None = None,
    ) -> None:
        begun = env.reset()
        keys = flat_keys(env, begun)
        if keys is None or (env.numel() > 1 and not batched):
            raise ValueError(f"{type(env).__name__} shows, takes or gives more than a plain env")
        self._lead = (env.numel(),) if batched else ()
        super().__init__(device=env.device, batch_size=self._lead)
        self._inner, self._keys, self._part, self._as = env, keys, part, shown
        self._now = begun
        self.observation_spec = Composite(
            {name: _like(one, self._lead) for name, one in self._shown(self._now).items()},
            shape=self._lead,
        )
        self.action_spec = self._laid(env.full_action_spec[keys.action])
        self.reward_spec = Unbounded((*self._lead, 1))
        self.full_done_spec = Composite(
            {name: Binary(1, (*self._lead, 1), dtype=torch.bool) for name in _FLAGS},
            shape=self._lead,
        )

    def _laid(self, spec: Any) -> Any:
        """The spec of all envs, with the dimension that they have here."""
        rows, lead = tuple(self._inner.batch_size), self._lead
        if rows == lead:
            return spec.clone()
        return spec.unsqueeze(0).clone() if lead else spec[0].clone()

    def _shown(self, td: TensorDictBase) -> dict[str, Tensor]:
        shown = self._keys.shows(td, self._lead)
        if self._as is not None:
            own = shown if isinstance(shown, Mapping) else {".".join(self._keys.shown[0]): shown}
            told = self._as.columns([own], self._lead)
            return {key[0]: one[0] for key, one in told.items()}
        if self._part is not None:
            shown = np.asarray(shown).reshape(*self._lead, -1)[..., list(self._part)]
        return {OBSERVATION: torch.as_tensor(shown)}

    def _made(self, td: TensorDictBase, **more: Tensor) -> TensorDictBase:
        terminated, truncated = map(torch.as_tensor, self._keys.ends(td, self._lead))
        flags = dict(zip(_FLAGS, (terminated | truncated, terminated, truncated), strict=True))
        entries = {name: one.reshape(*self._lead, 1) for name, one in flags.items()}
        return TensorDict({**self._shown(td), **entries, **more}, self._lead).to(self.device)

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        begins = None if tensordict is None else tensordict.get("_reset", None)
        if begins is None or bool(begins.all()):
            self._now = self._inner.reset()
        else:
            asked = self._now.clone(recurse=False)
            for key in self._inner.reset_keys:
                asked.set(key, begins.reshape((*self._inner.batch_size, 1)))
            self._now = self._inner.reset(asked)
        return self._made(self._now)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        spec, action = self._inner.full_action_spec[self._keys.action], tensordict.get(ACTION)
        asked = self._now.clone(recurse=False)
        stepped = self._inner.step(asked.set(self._keys.action, action.reshape(spec.shape)))
        self._now = self._inner.step_mdp(stepped)
        after = stepped.get("next")
        reward = after.get(self._keys.reward).reshape(*self._lead, 1)
        return self._made(after, reward=reward.float())

    def _set_seed(self, seed: int | None) -> None:
        self._inner.set_seed(seed)


def _like(value: Tensor, lead: tuple[int, ...]) -> Unbounded:
    return Unbounded(shape=(*lead, *value.shape[len(lead) :]), dtype=value.dtype)
