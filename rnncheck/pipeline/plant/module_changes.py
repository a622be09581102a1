"""Tools for changing a network from outside: around its call, in what it reads and writes."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.data.utils import CloudpickleWrapper
from torchrl.envs import EnvBase
from torchrl.modules import set_recurrent_mode
from torchrl.modules.tensordict_module.rnn import recurrent_mode

from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.instruments.vmap import under_vmap
from rnncheck.pipeline.keys import Key, declared
from rnncheck.pipeline.subject.modes import ModeQueries, measuring
from rnncheck.pipeline.subject.stock import rnn_of
from rnncheck.pipeline.subject.subject import next_key

Call = Callable[[TensorDictBase], TensorDictBase]
Around = Callable[[nn.Module, Call, TensorDictBase], TensorDictBase]
State = dict[Key, Tensor]
Step = Callable[[Tensor, State, State], State]


def mode(recurrent: bool) -> AbstractContextManager[Any]:
    """Recurrent or sequential mode inside the context."""
    context: AbstractContextManager[Any] = set_recurrent_mode(recurrent)
    return context


def is_recurrent() -> bool:
    """Whether recurrent mode is on."""
    return bool(recurrent_mode())


def wrap(module: nn.Module, around: Around) -> nn.Module:
    """``module`` with ``around`` in the place of its forward.

    Type, keys, parameters and copies stay its own.
    """
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
    """What makes a wrapped module, on its way to a worker process.

    A copy in this process shares it.
    """

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


def start_mask(module: nn.Module, td: TensorDictBase) -> Tensor:
    """``[*batch]``: any start flag of the step."""
    found = [td.get(key).reshape(*td.batch_size, -1).any(-1) for key in flags_of(module, td)]
    return torch.stack(found).any(0) if found else torch.zeros(td.batch_size, dtype=torch.bool)


def is_next_pass(module: nn.Module, td: TensorDictBase, batch: TensorDictBase) -> bool:
    """Whether the module reads what ``batch`` holds under ``next``: observation or state."""
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


def lowered_flags(module: nn.Module, td: TensorDictBase) -> State:
    """The start flags, all false."""
    return {key: torch.zeros_like(td.get(key)) for key in flags_of(module, td)}


def choose(mask: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """``left`` where ``mask`` ``[*batch]``."""
    return torch.where(mask.reshape(*mask.shape, *([1] * (right.ndim - mask.ndim))), left, right)


def by_steps(module: nn.Module, call: Call, td: TensorDictBase, step: Step) -> TensorDictBase:
    """The module over the last batch dimension, one sequential step after the other.

    ``step(starts, state, stored)`` gives the state that a step begins with, out of the one before
    and the stored one.
    """
    time, starts, outs = td.ndim - 1, start_mask(module, td), list[TensorDictBase]()
    state: State = {}
    with mode(False):
        for t in range(td.shape[-1]):
            now = td[..., t].copy()
            stored = {key: now.get(key) for key in carry_of(module)}
            state = step(starts[..., t], state, stored) if state else stored
            outs.append(called_with(module, call, now, {**lowered_flags(module, now), **state}))
            state = {key: now.get(next_key(key)) for key in carry_of(module)}
    for key in declared(module, "out_keys"):
        td.set(key, torch.stack([out.get(key) for out in outs], time))
    return td


def gates_of(module: nn.Module) -> list[Tensor]:
    """The weights of a stock LSTM or GRU whose first rows are its gates, one block each.

    Empty for other modules.
    """
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


def has_recurrent_mode(env: EnvBase, network: nn.Module, behind: nn.Module | None = None) -> bool:
    """Whether a copy of the network asks for the mode when it runs.

    It runs on a reset, or ``behind`` another network.
    """
    with measuring(recurrent=False), suppress(Exception):
        first = env.reset()
        td = first if behind is None else copy_of(behind, "the network")(first)
        with ModeQueries() as queries, suppress(Exception):
            copy_of(network, "the network")(td)
        return queries.count > 0
    return False
