"""What an env says about itself: two resets, its transforms, its start flags and primers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Bounded, Categorical, MultiCategorical, OneHot, TensorSpec
from torchrl.envs import EnvBase, InitTracker, TensorDictPrimer, TransformedEnv
from torchrl.envs.batched_envs import BatchedEnvBase

from rnncheck.pipeline.keys import Key, as_key, tensor_keys
from rnncheck.pipeline.placing import on_cpu
from rnncheck.pipeline.subject.modes import measuring

Env = EnvBase  # for those who hold one without knowing TorchRL


def close_env(env: Any) -> None:
    """Close an env that may be closed already."""
    if isinstance(env, EnvBase) and not env.is_closed:
        env.close(raise_if_closed=False)


@dataclass(frozen=True)
class EnvFacts:
    """Two resets of one env instance, a step after the second, and what its transforms declare.

    ``after`` is the root of the step after one random action, without a reset in between; None
    where the env raises or ends its episode there.
    """

    first: TensorDictBase
    second: TensorDictBase
    after: TensorDictBase | None
    batch_shape: tuple[int, ...]
    tracked: tuple[Key, ...]  # keys of InitTracker transforms
    primers: tuple[TensorDictPrimer, ...]
    done: tuple[Key, ...]
    actions: tuple[Key, ...]
    primed: tuple[Key, ...]  # keys that primers declare
    own: frozenset[Key]  # keys that a reset of the env without its primers gives
    # the least and largest value of every integer that is observed
    limits: Mapping[Key, tuple[int, int]] = field(default_factory=dict)
    action_limits: Mapping[Key, tuple[int, int]] = field(
        default_factory=dict
    )  # the same of actions

    @property
    def rank(self) -> int:
        """How many batch dimensions the env has."""
        return len(self.batch_shape)

    @property
    def rows(self) -> int:
        """How many envs run side by side."""
        return max(1, torch.Size(self.batch_shape).numel())


def look_at(env: EnvBase) -> EnvFacts:
    """Reset the env twice and note what it declares."""
    with measuring(recurrent=False, explore=True):
        first = env.reset().clone()
        second = env.reset().clone()
        after = _one_step(env, second.clone())
    return env_facts_of(env, first, second, after)


def _one_step(env: EnvBase, td: TensorDictBase) -> TensorDictBase | None:
    try:
        stepped = env.step(env.rand_action(td))
    except Exception:  # judged where the env is played
        return None
    ended = any(bool(stepped.get(("next", *as_key(key))).any()) for key in env.done_keys)
    return None if ended else env.step_mdp(stepped)


def env_facts_of(
    env: EnvBase, first: TensorDictBase, second: TensorDictBase, after: TensorDictBase | None
) -> EnvFacts:
    """The facts of an env that was reset twice and stepped once."""
    found = list(transforms(env))
    primers = tuple(t for t in found if isinstance(t, TensorDictPrimer))
    primed = {as_key(key) for primer in primers for key in primer.primers.keys(True, True)}
    return EnvFacts(
        first=on_cpu(first),
        second=on_cpu(second),
        after=None if after is None else on_cpu(after),
        batch_shape=tuple(env.batch_size),
        tracked=tuple(as_key(k) for t in found if isinstance(t, InitTracker) for k in init_keys(t)),
        primers=primers,
        done=tuple(as_key(key) for key in env.done_keys),
        actions=tuple(as_key(key) for key in env.action_keys),
        primed=tuple(sorted(primed)),
        own=frozenset(tensor_keys(first)) - primed,
        limits=_limits(env.observation_spec.items(True, True)),
        action_limits=_limits((key, env.full_action_spec[key]) for key in env.action_keys),
    )


def _limits(specs: Iterable[tuple[Any, TensorSpec]]) -> dict[Key, tuple[int, int]]:
    """By key, what the spec allows of an integer; one-hot vectors are no numbers."""
    found = {}
    for name, spec in specs:
        if spec.dtype.is_floating_point or spec.dtype is torch.bool:
            continue
        if isinstance(spec, MultiCategorical):  # what each of its numbers may be
            found[as_key(name)] = (0, int(spec.nvec.min()) - 1)
        elif isinstance(spec, Categorical) and int(spec.n) > 0:
            found[as_key(name)] = (0, int(spec.n) - 1)
        elif isinstance(spec, Bounded):
            found[as_key(name)] = (int(spec.space.low.max()), int(spec.space.high.min()))
    return found


@dataclass(frozen=True)
class ActionForm:
    """The shape of one action as the env's spec has it and as it was given; neither with batch
    dimensions."""

    key: Key
    wanted: torch.Size
    given: torch.Size
    one_hot: bool

    @property
    def fits(self) -> bool:
        """As many entries; a trailing dimension of one more or less is read all the same."""
        return self.wanted.numel() == self.given.numel()


def action_forms(env: EnvBase, td: TensorDictBase) -> list[ActionForm]:
    """Every action of ``td`` whose spec has a fixed shape."""
    found = []
    for name in env.action_keys:
        spec, action = env.full_action_spec[name], td.get(name, None)
        wanted = spec.shape[len(env.batch_size) :]
        if isinstance(action, Tensor) and -1 not in wanted:
            given = action.shape[td.batch_dims :]
            found.append(ActionForm(as_key(name), wanted, given, isinstance(spec, OneHot)))
    return found


def init_keys(tracker: InitTracker) -> list[Any]:
    """The tracker's keys, or its declared name when it has no parent yet."""
    try:
        return list(tracker.init_keys)
    except (AttributeError, RuntimeError, KeyError):
        return [tracker.init_key]


def transforms(env: Any) -> Iterator[Any]:
    """Every transform of ``env``, also inside a batched env that lives in this process."""
    if isinstance(env, TransformedEnv):
        yield from flat(env.transform)
        yield from transforms(env.base_env)
    elif isinstance(env, BatchedEnvBase):
        yield from _worker_transforms(env)


def _worker_transforms(env: Any) -> Iterator[Any]:
    """The transforms inside a batched env: of its first env, or of one made anew where workers hide
    theirs."""
    inner = getattr(env, "_envs", None)
    if isinstance(inner, list) and inner:
        yield from transforms(inner[0])
        return
    try:
        one = env.create_env_fn[0]()
    except (
        Exception
    ):  # what a worker can build may not be buildable here; then nothing is known of it
        return
    yield from list(transforms(one))
    close_env(one)


def flat(transform: Any) -> Iterator[Any]:
    """The transforms of a Compose, in order; any other transform as itself."""
    children = getattr(transform, "transforms", None)
    if children is None:
        yield transform
    else:
        for child in children:
            yield from flat(child)
