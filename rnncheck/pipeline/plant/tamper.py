"""Tools for changing a live pipeline from outside: around a module's call, behind an env's transforms."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.data.utils import CloudpickleWrapper
from torchrl.envs import Compose, EnvBase, TransformedEnv
from torchrl.envs.transforms import (
    ExcludeTransform,
    RenameTransform,
    StepCounter,
    TensorDictPrimer,
    Transform,
)
from torchrl.modules import set_recurrent_mode
from torchrl.modules.tensordict_module.rnn import recurrent_mode

from rnncheck.pipeline.instruments.memoryless import under_vmap
from rnncheck.pipeline.keys import Key, as_key, declared, tensor_keys
from rnncheck.pipeline.subject.env_facts import flat
from rnncheck.pipeline.subject.modes import ModeQueries, measuring
from rnncheck.pipeline.subject.stock import rnn_of
from rnncheck.pipeline.subject.subject import next_key

Call = Callable[[TensorDictBase], TensorDictBase]
Around = Callable[[nn.Module, Call, TensorDictBase], TensorDictBase]
State = dict[Key, Tensor]
Step = Callable[[Tensor, State, State], State]
EnvChange = Callable[[TensorDictBase | None, TensorDictBase], TensorDictBase]


def mode(recurrent: bool) -> AbstractContextManager[Any]:
    """Recurrent or sequential mode inside the context."""
    context: AbstractContextManager[Any] = set_recurrent_mode(recurrent)
    return context


def is_recurrent() -> bool:
    """Whether recurrent mode is on."""
    return bool(recurrent_mode())


def wrap(module: nn.Module, around: Around) -> nn.Module:
    """``module`` with ``around`` in the place of its forward; type, keys, parameters and copies stay its own."""
    module.__class__ = _wrapped(type(module), around)
    return module


def _wrapped(original: type[nn.Module], around: Around) -> type[nn.Module]:
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        call = partial(original.forward, self)
        if not args or not isinstance(args[0], TensorDictBase):
            return call(*args, **kwargs)
        return around(self, lambda td: call(td, *args[1:], **kwargs), args[0])

    def reduced(self: nn.Module, _protocol: int) -> Any:
        return _rebuilt, (_Sent(original, around),), self.__getstate__()

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(forward=forward, __reduce_ex__=reduced, __module__=original.__module__)

    return types.new_class(original.__name__, (original,), {}, fill)


@dataclass(frozen=True)
class _Sent:
    """What makes a wrapped module, on its way to a worker process; a copy in this process shares it."""

    original: type[nn.Module]
    around: Around

    def __deepcopy__(self, memo: object) -> _Sent:
        return self

    def __reduce__(self) -> Any:
        parts = self.original, self.around
        return _sent, (CloudpickleWrapper(lambda: parts),)


def _sent(parts: Callable[[], tuple[type[nn.Module], Around]]) -> _Sent:
    return _Sent(*parts())


def _rebuilt(sent: _Sent) -> nn.Module:
    """A wrapped module without its state, which comes next."""
    kind = _wrapped(sent.original, sent.around)
    return kind.__new__(kind)


def called_with(module: nn.Module, call: Call, td: TensorDictBase, values: State) -> TensorDictBase:
    """What ``call`` writes when it reads ``values``; of ``td`` only the module's outputs change."""
    work = td.copy()
    for key, value in values.items():
        work.set(key, value)
    out = call(work)
    for key in declared(module, "out_keys"):
        if out.get(key, None) is not None:
            td.set(key, out.get(key))
    return td


def flags_of(module: nn.Module, td: TensorDictBase) -> tuple[Key, ...]:
    """The start flags that the module reads: its boolean inputs."""
    keys = declared(module, "in_keys")
    return tuple(k for k in keys if _is(td, k) and td.get(k).dtype is torch.bool)


def carry_of(module: nn.Module) -> tuple[Key, ...]:
    """The state that the module reads and writes back under ``next``."""
    writes = declared(module, "out_keys")
    return tuple(key for key in declared(module, "in_keys") if next_key(key) in writes)


def inputs_of(module: nn.Module, td: TensorDictBase) -> tuple[Key, ...]:
    """What the module reads of each step: floating entries, no state."""
    mine = set(carry_of(module))
    keys = [key for key in declared(module, "in_keys") if key not in mine and _is(td, key)]
    return tuple(key for key in keys if td.get(key).is_floating_point())


def outputs_of(module: nn.Module) -> tuple[Key, ...]:
    """What the module writes to the root."""
    return tuple(key for key in declared(module, "out_keys") if key[0] != "next")


def _is(td: TensorDictBase, key: Key) -> bool:
    return isinstance(td.get(key, None), Tensor)


def starts_of(module: nn.Module, td: TensorDictBase) -> Tensor:
    """``[*batch]``: any start flag of the step."""
    found = [td.get(key).reshape(*td.batch_size, -1).any(-1) for key in flags_of(module, td)]
    return torch.stack(found).any(0) if found else torch.zeros(td.batch_size, dtype=torch.bool)


def is_next_pass(module: nn.Module, td: TensorDictBase, batch: TensorDictBase) -> bool:
    """Whether the module reads what ``batch`` holds under ``next``: an observation, or its state."""
    if under_vmap(td):
        return False
    for key in declared(module, "in_keys"):
        value, now, after = td.get(key, None), batch.get(key, None), batch.get(next_key(key), None)
        if not isinstance(value, Tensor) or value.dtype is torch.bool:
            continue
        if _equal(value, after) and not _equal(value, now):
            return True
    return False


def _equal(left: Tensor, right: Tensor | None) -> bool:
    if right is None or left.numel() != right.numel():
        return False
    return torch.equal(left.reshape(-1), right.reshape(-1))


def lowered(module: nn.Module, td: TensorDictBase) -> State:
    """The start flags, all false."""
    return {key: torch.zeros_like(td.get(key)) for key in flags_of(module, td)}


def choose(mask: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """``left`` where ``mask`` ``[*batch]``."""
    return torch.where(mask.reshape(*mask.shape, *([1] * (right.ndim - mask.ndim))), left, right)


def by_steps(module: nn.Module, call: Call, td: TensorDictBase, step: Step) -> TensorDictBase:
    """The module over the last batch dimension, one sequential step after the other.

    ``step(starts, state, stored)`` gives the state that a step begins with, out of the one before and the stored one.
    """
    time, starts, outs = td.ndim - 1, starts_of(module, td), list[TensorDictBase]()
    state: State = {}
    with mode(False):
        for t in range(td.shape[-1]):
            now = td[..., t].copy()
            stored = {key: now.get(key) for key in carry_of(module)}
            state = step(starts[..., t], state, stored) if state else stored
            outs.append(called_with(module, call, now, {**lowered(module, now), **state}))
            state = {key: now.get(next_key(key)) for key in carry_of(module)}
    for key in declared(module, "out_keys"):
        td.set(key, torch.stack([out.get(key) for out in outs], time))
    return td


def gates_of(module: nn.Module) -> list[Tensor]:
    """The weights of a stock LSTM or GRU whose first rows are its gates, one block each; empty for others."""
    rnn = rnn_of(module)
    return [] if rnn is None else [p for name, p in rnn.named_parameters() if "weight" in name]


def rename_keys(
    network: nn.Module,
    read: Mapping[Key, Key] | None = None,
    written: Mapping[Key, Key] | None = None,
) -> None:
    """Rename what the network and its parts declare to read and write."""
    for part in network.modules():
        for name, new in (("in_keys", read or {}), ("out_keys", written or {})):
            old = declared(part, name)
            if set(old) & set(new):
                setattr(part, name, [new.get(key, key) for key in old])


# --- envs ------------------------------------------------------------------------------------


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
    """``env`` with a change behind all its transforms: ``change(before, given)`` returns what is given instead."""
    changed: EnvBase = env.append_transform(Altered(reset, step))
    return changed


def shortened(env: EnvBase, steps: int) -> EnvBase:
    """``env`` whose episodes are truncated after ``steps``."""
    key = "rnncheck_step_count"
    changed: EnvBase = env.append_transform(StepCounter(max_steps=steps, step_count_key=key))
    return changed


def without_states(env: EnvBase, keys: Sequence[Key]) -> EnvBase:
    """``env`` without the primers of these states; without the states, where its inner envs prime them."""
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
    """The primers of these states in the env's own chain of transforms, where they can be exchanged."""
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


def present(td: TensorDictBase | None, keys: Iterable[Key]) -> tuple[Key, ...]:
    """Those of ``keys`` that ``td`` holds."""
    return () if td is None else tuple(key for key in keys if key in tensor_keys(td))


def has_recurrent_mode(env: EnvBase, network: nn.Module, behind: nn.Module | None = None) -> bool:
    """Whether a copy of the network asks for the mode when it runs, on a reset or ``behind`` another network."""
    with measuring(recurrent=False), suppress(Exception):
        first = env.reset()
        td = first if behind is None else copy.deepcopy(behind)(first)
        with ModeQueries() as queries, suppress(Exception):
            copy.deepcopy(network)(td)
        return queries.count > 0
    return False
