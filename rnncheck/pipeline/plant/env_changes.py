"""Tools for changing an env from outside: behind its transforms, in the states that it primes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.envs import Compose, EnvBase, TransformedEnv
from torchrl.envs.transforms import (
    ExcludeTransform,
    RenameTransform,
    StepCounter,
    TensorDictPrimer,
    Transform,
)

from rnncheck.pipeline.keys import Key, as_key, present
from rnncheck.pipeline.subject.env_facts import flat

EnvChange = Callable[[TensorDictBase | None, TensorDictBase], TensorDictBase]


class Altered(Transform):
    """Changes what a reset and a step give, without saying so in the specs."""

    def __init__(self, reset: EnvChange | None = None, step: EnvChange | None = None) -> None:
        super().__init__()
        self.changes = (reset, step)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> Any:
        change = self.changes[0]
        return change(tensordict, tensordict_reset) if change else tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> Any:
        change = self.changes[1]
        return change(tensordict, next_tensordict) if change else next_tensordict


def altered(env: EnvBase, reset: EnvChange | None = None, step: EnvChange | None = None) -> EnvBase:
    """``env`` with a change behind all its transforms.

    ``change(before, given)`` returns what is given instead.
    """
    changed: EnvBase = env.append_transform(Altered(reset, step))
    return changed


def shortened(env: EnvBase, steps: int) -> EnvBase:
    """``env`` whose episodes are truncated after ``steps``."""
    key = "rnncheck_step_count"
    changed: EnvBase = env.append_transform(StepCounter(max_steps=steps, step_count_key=key))
    return changed


def without_states(env: EnvBase, keys: Sequence[Key]) -> EnvBase:
    """``env`` without the primers of these states.

    Where its inner envs prime them, it is without the states themselves.
    """
    bare = _with_primers(env, keys, lambda primer: None)
    left = present(bare.reset(), keys)
    return bare.append_transform(ExcludeTransform(*map(_plain, left))) if left else bare


def with_random_states(env: EnvBase, keys: Sequence[Key]) -> EnvBase:
    """``env`` whose resets draw these states anew."""
    if _own_primers(env, keys):
        return _with_primers(env, keys, _random_primer)

    def draw(before: TensorDictBase | None, given: TensorDictBase) -> TensorDictBase:
        for key in present(given, keys):
            given.set(key, torch.randn_like(given.get(key)))
        return given

    return altered(env, draw)


def with_renamed_states(env: EnvBase, keys: Sequence[Key], suffix: str) -> EnvBase:
    """``env`` that primes these states under other names."""
    if _own_primers(env, keys):
        return _with_primers(env, keys, lambda primer: _renamed_primer(primer, suffix))
    new = [_plain(_suffixed(key, suffix)) for key in keys]
    renamed: EnvBase = env.append_transform(RenameTransform([_plain(key) for key in keys], new))
    return renamed


def _own_primers(env: EnvBase, keys: Iterable[Key]) -> list[TensorDictPrimer]:
    """The primers of these states in the env's own chain, where they can be exchanged."""
    found = flat(env.transform) if isinstance(env, TransformedEnv) else ()
    return [one for one in found if isinstance(one, TensorDictPrimer) and _primes(one, keys)]


def _primes(primer: TensorDictPrimer, keys: Iterable[Key]) -> bool:
    return bool({as_key(key) for key in primer.primers.keys(True, True)} & set(keys))


def _with_primers(
    env: EnvBase, keys: Sequence[Key], change: Callable[[TensorDictPrimer], Transform | None]
) -> EnvBase:
    """``env`` with each of its own primers of these states changed; None leaves it out."""
    theirs = {id(one) for one in _own_primers(env, keys)}
    if not theirs:
        return env
    kept = [change(one) if id(one) in theirs else one.clone() for one in flat(env.transform)]
    return TransformedEnv(env.base_env, Compose(*(one for one in kept if one is not None)))


def _random_primer(primer: TensorDictPrimer) -> TensorDictPrimer:
    return TensorDictPrimer(primers=primer.primers.clone(), random=True, expand_specs=True)


def _renamed_primer(primer: TensorDictPrimer, suffix: str) -> TensorDictPrimer:
    old = primer.primers
    keys = [as_key(key) for key in old.keys(True, True)]
    named = {_suffixed(key, suffix): old[key].clone() for key in keys}
    return TensorDictPrimer(primers={_plain(k): v for k, v in named.items()}, expand_specs=True)


def _suffixed(key: Key, suffix: str) -> Key:
    return (*key[:-1], key[-1] + suffix)


def _plain(key: Key) -> str | Key:
    return key[0] if len(key) == 1 else key
