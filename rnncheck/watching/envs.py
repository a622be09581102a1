"""Envs like those that a script acts in, made while it runs: it may close its own."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn
from torchrl.envs import EnvBase, ParallelEnv, Transform, TransformedEnv
from torchrl.envs.batched_envs import BatchedEnvBase

from rnncheck.pipeline.assembly.factories import Given

_UP_TO = "_parent"  # of a transform: the env that it sees, without itself and those behind it


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
    made: EnvBase = copy.deepcopy(env, _modules() | _left_out(env))
    return made


def env_copy(env: Any) -> Any:
    """A deep copy of an env of any kind: Python modules that it keeps in attributes are the same
    ones there."""
    return copy.deepcopy(env, _modules())


def _modules() -> dict[int, Any]:
    return {id(one): one for one in list(sys.modules.values())}


def _left_out(env: EnvBase) -> dict[int, Any]:
    """What ``deepcopy`` is to take for copied already, as nothing: the env up to each transform,
    with specs of its own, which a transform keeps once it was asked for and makes anew where it has
    none. Of a batch of envs that is most of what there is to copy."""
    transforms = [one for one in _parts_of(env) if isinstance(one, Transform)]
    found = {id(one.__dict__.get(_UP_TO)) for one in transforms} - {id(None)}
    held = {id(value) for one in transforms for name, value in vars(one).items() if name != _UP_TO}
    return dict.fromkeys(found - held)


def _parts_of(env: EnvBase) -> Iterator[nn.Module]:
    for part in env.modules():
        yield part
        for inner in vars(part).get("_envs", ()) if isinstance(part, BatchedEnvBase) else ():
            yield from _parts_of(inner)


def env_maker(make: Any, made: Any = None) -> Callable[..., EnvBase]:
    """A function that gives a fresh env; the script's own where it has one. What that has ``made``
    is copied where it cannot be called twice, as one that appends the same transform again."""
    if isinstance(make, EnvBase):
        return Given(lambda: env_like(make))
    function: Callable[..., EnvBase] = make
    return _Again(function, made) if isinstance(made, EnvBase) else function


class _Again:
    """The script's function, or copies of what it gave."""

    def __init__(self, function: Callable[..., EnvBase], made: EnvBase) -> None:
        functools.update_wrapper(self, function)
        self._function, self._made = function, made

    def __call__(self, *args: Any, **kwargs: Any) -> EnvBase:
        try:
            return self._function(*args, **kwargs)
        except Exception as error:
            try:
                return env_like(self._made)
            except Exception:  # an env of the user's may refuse to be copied
                raise error from None


def env_name(make: Any) -> str:
    """What the env is called in reports."""
    name = getattr(make, "__qualname__", type(make).__qualname__)
    return str(name).replace("<locals>.", "")
