"""Envs like those that a script acts in, made while it runs: it may close its own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torchrl.envs import EnvBase, ParallelEnv, TransformedEnv

from rnncheck.pipeline.assembly.factories import Given


def kept(make: Any) -> Any:
    """What envs can be made of later on: a function as it is, of an env a copy."""
    return env_like(make) if isinstance(make, EnvBase) else make


def one_of(make: Any) -> Any:
    """Of a list with what makes the env of each worker the first."""
    if isinstance(make, (list, tuple)):
        return make[0] if make else None
    return make


def env_like(env: EnvBase) -> EnvBase:
    """A copy of an env; one with worker processes gets workers of its own."""
    if isinstance(env, TransformedEnv):
        return TransformedEnv(env_like(env.base_env), env.transform.clone())
    if isinstance(env, ParallelEnv):
        return type(env)(
            env.num_workers,
            env.create_env_fn,
            create_env_kwargs=env.create_env_kwargs,
            serial_for_single=env.serial_for_single,
        )
    made: EnvBase = copy.deepcopy(env)
    return made


def env_maker(make: Any) -> Callable[..., EnvBase]:
    """A function that gives a fresh env; the script's own where it has one."""
    if isinstance(make, EnvBase):
        return Given(lambda: env_like(make))
    function: Callable[..., EnvBase] = make
    return function


def env_name(make: Any) -> str:
    """What the env is called in reports."""
    name = getattr(make, "__qualname__", type(make).__qualname__)
    return str(name).replace("<locals>.", "")
