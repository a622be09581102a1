"""Entries that a script's loop fills, ahead of each step, with what the step before had: the action
that was taken, the reward that it got."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase, TensorDictPrimer, Transform, TransformedEnv

from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.watching.envs import env_like

_LEAST = 8  # steps at which it must be what the step before had: chosen, not measured
_RESET = "_reset"
_FLAG = "is_init"


@dataclass(frozen=True)
class Before:
    """An entry is ``source`` of the step before, or the ``one_hot`` form of that; ``first`` at the
    first step of an episode, for each env alike, or of the first one alone where it ``stays``."""

    source: Key
    first: Tensor
    one_hot: bool = False
    stays: bool = False


class ShownBefore(Transform):  # type: ignore[misc]
    """Shows the entries as the script's loop does."""

    def __init__(self, entries: Mapping[Key, Before]) -> None:
        super().__init__()
        self.entries = dict(entries)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key, one in self.entries.items():
            inside = one.source[0] == "next"
            td, source = (next_tensordict, one.source[1:]) if inside else (tensordict, one.source)
            value = td.get(source, None)
            lead = tensordict.batch_size
            if value is None:  # where no policy acts
                value = torch.zeros((*lead, *one.first.shape), dtype=one.first.dtype)
            elif one.one_hot:
                value = torch.nn.functional.one_hot(value.long(), one.first.numel())
            next_tensordict.set(key, value.reshape((*lead, *one.first.shape)).to(one.first.dtype))
        return next_tensordict

    def _reset(
        self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase
    ) -> TensorDictBase:
        lead = tensordict_reset.batch_size
        for key, one in self.entries.items():
            shape = (*lead, *one.first.shape)
            first = one.first.to(tensordict_reset.device).expand(shape).clone()
            begins = None if tensordict is None else tensordict.get(_RESET, None)
            before = None if tensordict is None else tensordict.get(key, None)
            if begins is not None and before is not None:
                wide = begins.reshape(*lead, *[1] * one.first.ndim)
                first = before if one.stays else torch.where(wide, first, before)
            tensordict_reset.set(key, first)
        return tensordict_reset

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """With the entries."""
        lead, device = observation_spec.shape, observation_spec.device
        for key, one in self.entries.items():
            shape, kind = (*lead, *one.first.shape), one.first.dtype
            observation_spec.set(key, Unbounded(shape=shape, dtype=kind, device=device))
        return observation_spec


def with_shown(env: EnvBase, entries: Mapping[Key, Before]) -> EnvBase:
    """A copy of the env that shows them."""
    return _and(env_like(env), ShownBefore(entries))


def _and(env: EnvBase, transform: Transform) -> EnvBase:
    """The env with the transform behind those that it has."""
    if not isinstance(env, TransformedEnv):
        return TransformedEnv(env, transform)
    env.append_transform(transform)
    return env


def with_begun_states(env: EnvBase, begun: Mapping[Key, Tensor]) -> EnvBase:
    """A copy of the env whose resets give these states, as zeros, as the script's loop does."""
    made, specs = env_like(env), Composite(shape=env.batch_size)
    for key, value in begun.items():
        specs.set(key, Unbounded(shape=value.shape, dtype=value.dtype, device=value.device))
    return _and(made, TensorDictPrimer(specs, default_value=0.0))


def shown_before(
    env: EnvBase, batches: Sequence[TensorDictBase], read: Iterable[Key], writes: Iterable[Key]
) -> dict[Key, Before]:
    """Those of the keys ``read`` that the env does not show, and the loop fills."""
    shown = shown_by(env)
    carried = {key[1:] for key in writes if key[0] == "next"}
    left = [key for key in read if key not in shown | carried]
    told = {
        key: _told(key, batches) if key[-1] != _FLAG else _flag(key, batches[0])
        for key in left
        if all(key in tensor_keys(b) for b in batches)
    }
    return {key: one for key, one in told.items() if one is not None}


def shown_by(env: EnvBase) -> set[Key]:
    """The entries that the env itself has ahead of a step."""
    return {_key(key) for spec in _specs(env) for key in spec.keys(True, True)}


def _flag(key: Key, batch: TensorDictBase) -> Before:
    """A start flag that the loop sets: whatever it sets it to, it is to tell that."""
    return Before(("next", "done"), torch.ones_like(_of_one(batch, key)))


def _of_one(batch: TensorDictBase, key: Key) -> Tensor:
    """The entry at the first step of one env, in the form that it has there."""
    value: Tensor = batch.get(key)
    return value.flatten(0, batch.batch_dims - 1)[0]


def _specs(env: EnvBase) -> Iterator[Composite]:
    yield from (env.full_observation_spec, env.full_state_spec, env.full_done_spec)


def _key(key: Any) -> Key:
    return (key,) if isinstance(key, str) else tuple(key)


def _told(key: Key, batches: Sequence[TensorDictBase]) -> Before | None:
    """What stands there at steps that go on from another; None where that is nothing of it, or
    episodes do not begin alike."""
    firsts = torch.cat([_laid(one, key)[_begins(one)] for one in batches])
    if len(firsts) and bool((firsts != firsts[:1]).any()):
        return None
    values = torch.cat([_laid(one, key).flatten(0, 1) for one in batches])
    if not bool((values != values[:1]).any()):
        return None
    for source in sorted(tensor_keys(batches[0]), key=_likely):
        fitting = [_compared(one, key, source) for one in batches]
        count = sum(len(one) for one in fitting if one is not None)
        same = all(one is not None and bool(one.all()) for one in fitting)
        if source != key and source[-1] != _FLAG and same and count >= _LEAST:
            like = _of_one(batches[0], key)
            first = firsts[0].reshape(like.shape) if len(firsts) else torch.zeros_like(like)
            return Before(source, first.clone())
    return None


def _likely(source: Key) -> bool:
    """Rewards and actions come first: others may be alike where these never change."""
    return source[-1] not in ("reward", "action")


def _compared(batch: TensorDictBase, key: Key, source: Key) -> Tensor | None:
    """At which steps that go on from another one it is what that had."""
    if source not in tensor_keys(batch) or batch.shape[-1] < 2:
        return None
    mine, theirs = _laid(batch, key)[:, 1:], _laid(batch, source)[:, :-1]
    if mine[0, 0].numel() != theirs[0, 0].numel():
        return None
    same = (mine.flatten(2) == theirs.flatten(2).to(mine.dtype)).all(-1)
    return same[~_begins(batch)[:, 1:]]


def _laid(batch: TensorDictBase, key: Key) -> Tensor:
    """``[rows, steps, ...]``."""
    value: Tensor = batch.get(key)
    steps = batch.shape[-1]
    return value.reshape(-1, steps, *(value.shape[batch.batch_dims :] or (1,)))


def _begins(batch: TensorDictBase) -> Tensor:
    """``[rows, steps]``: where an episode begins."""
    flags = [key for key in tensor_keys(batch) if key[-1] == _FLAG and key[0] != "next"]
    ends = [key for key in tensor_keys(batch) if key[0] == "next" and key[-1] == "done"]
    found = torch.zeros(batch.numel() // batch.shape[-1], batch.shape[-1], dtype=torch.bool)
    for key in flags:
        found |= _laid(batch, key).flatten(2).any(-1)
    for key in ends:
        found[:, 1:] |= _laid(batch, key).flatten(2).any(-1)[:, :-1]
    return found
