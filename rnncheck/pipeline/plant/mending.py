"""Tools for mending a pipeline that is built again: what its env should have given, what its
batches should have marked, and the mode that its loss should have run in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.envs import EnvBase, InitTracker
from torchrl.modules.utils import get_primers_from_module

from rnncheck.pipeline.keys import STEP_KEY, Key, declared, present
from rnncheck.pipeline.plant.env_changes import altered
from rnncheck.pipeline.plant.hooks import CannotPlant
from rnncheck.pipeline.plant.module_changes import mode, wrap
from rnncheck.pipeline.subject.subject import carriers

_TRAJECTORIES = ("collector", "traj_ids")


def with_primers(env: EnvBase, policy: nn.Module) -> EnvBase:
    """``env`` with the primers of the policy's modules, as their own makers give them."""
    primers = get_primers_from_module(policy, warn=False)
    if primers is None:
        raise CannotPlant("no module of the policy makes a primer")
    primed: EnvBase = env.append_transform(primers)
    return primed


def with_tracker(env: EnvBase) -> EnvBase:
    """``env`` with an InitTracker behind its transforms."""
    tracked: EnvBase = env.append_transform(InitTracker())
    return tracked


def start_flags_read(env: EnvBase, policy: nn.Module) -> tuple[Key, ...]:
    """The boolean inputs of the policy's carriers that a reset of the env gives."""
    first = env.reset()
    reads = [key for one in carriers(policy) for key in declared(one.module, "in_keys")]
    flags = tuple(k for k in dict.fromkeys(present(first, reads)) if _is_flag(first, k))
    if not flags:
        raise CannotPlant("the policy reads no start flag from the env")
    return flags


def _is_flag(td: TensorDictBase, key: Key) -> bool:
    return td.get(key).dtype is torch.bool


def with_true_flags(env: EnvBase, keys: tuple[Key, ...]) -> EnvBase:
    """``env`` whose start flags are true where it was reset, and nowhere else."""

    def reset(before: TensorDictBase | None, given: TensorDictBase) -> TensorDictBase:
        for key in keys:
            given.set(key, _was_reset(before, given.get(key)))
        return given

    def step(_before: TensorDictBase | None, given: TensorDictBase) -> TensorDictBase:
        for key in present(given, keys):
            given.set(key, torch.zeros_like(given.get(key)))
        return given

    return altered(env, reset, step)


def _was_reset(before: TensorDictBase | None, flag: Tensor) -> Tensor:
    """Every env of a batch, but where a part of it was asked for."""
    asked = None if before is None else before.get("_reset", None)
    if asked is None:
        return torch.ones_like(flag)
    shaped: Tensor = asked.reshape(flag.shape)
    return shaped.clone()


def with_marks(sample: TensorDictBase, keys: tuple[Key, ...]) -> TensorDictBase:
    """A training batch whose start flags are true at every join, besides where they were."""
    numbers = sample.get(STEP_KEY, None)
    if numbers is None or sample.ndim == 0:
        raise CannotPlant("the training batches do not tell which steps they hold")
    time = sample.ndim - 1
    joins = _breaks(numbers.reshape(sample.shape), time, by=1)
    trajectories = sample.get(_TRAJECTORIES, None)
    if trajectories is not None:
        joins = joins | _breaks(trajectories.reshape(sample.shape), time, by=0)
    for key in present(sample, keys):
        flag = sample.get(key)
        sample.set(key, flag | joins.reshape(flag.shape))
    return sample


def _breaks(values: Tensor, time: int, *, by: int) -> Tensor:
    """Where a value is not the one before it in time and ``by``; never at the first."""
    before, after = (
        values.narrow(time, 0, values.shape[time] - 1),
        values.narrow(time, 1, values.shape[time] - 1),
    )
    first = torch.zeros_like(values.narrow(time, 0, 1), dtype=torch.bool)
    return torch.cat([first, after != before + by], time)


def in_recurrent_mode_whole(function: Any) -> Any:
    """A loss or an estimator that runs in recurrent mode, whatever is set around it."""

    def run(call: Callable[[TensorDictBase], Any], td: TensorDictBase) -> Any:
        with mode(True):
            return call(td)

    if isinstance(function, nn.Module):
        return wrap(function, lambda _module, call, td: run(call, td))
    return lambda td: run(function, td)
