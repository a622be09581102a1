"""A twin without memory of whatever runs: every carrying module sees each step as a trajectory of
its own."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.utils.weak import WeakIdKeyDictionary

from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.instruments.vmap import is_batched, under_vmap
from rnncheck.pipeline.keys import declared
from rnncheck.pipeline.subject.subject import next_key


class Memoryless:
    """While the context is open, a batch reaches a carrying module as rows of one step, from zeros
    and marked; a sequence reaches torch's own recurrent layers so as well.

    The hooks are global, so that a network is found wherever a loss keeps it, and whatever the loss
    did to the marks before. Calls under vmap are left alone.
    """

    def __init__(self) -> None:
        self._whole: list[tuple[nn.Module, TensorDictBase | None]] = []
        self._sequences: list[tuple[nn.RNNBase, torch.Size]] = []
        self._carries: MutableMapping[nn.Module, bool] = WeakIdKeyDictionary()

    def __enter__(self) -> Memoryless:
        self._handles = [
            hooks.register_module_forward_pre_hook(self._cut),
            hooks.register_module_forward_hook(self._joined, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _innermost(self, module: nn.Module) -> bool:
        if module not in self._carries:
            inner = (part for part in all_modules(module) if part is not module)
            self._carries[module] = bool(_states(module)) and not any(map(_states, inner))
        return self._carries[module]

    def _cut(self, module: nn.Module, args: Any) -> Any:
        if isinstance(module, nn.RNNBase):
            return self._cut_sequence(module, args)
        if not self._innermost(module):
            return None
        td = args[0] if args and isinstance(args[0], TensorDictBase) else None
        whole = td if td is not None and td.ndim and not under_vmap(td) else None
        self._whole.append((module, whole))
        return None if whole is None else (_steps(module, whole), *args[1:])

    def _cut_sequence(self, module: nn.RNNBase, args: Any) -> Any:
        """``[1, rows * steps, features]``, or with the batch first ``[rows * steps, 1, features]``,
        from zeros; a packed sequence, or one step, is left as it is."""
        x = args[0] if args else None
        time = 1 if module.batch_first else 0
        if not isinstance(x, Tensor) or is_batched(x) or x.ndim != 3 or x.shape[time] < 2:
            return None
        self._sequences.append((module, x.shape))
        return (x.reshape(-1, x.shape[2]).unsqueeze(time),)

    def _joined(self, module: nn.Module, args: Any, result: Any) -> Any:
        if self._sequences and self._sequences[-1][0] is module:
            return _joined_sequence(*self._sequences.pop(), result)
        if not self._whole or self._whole[-1][0] is not module:
            return None
        _, whole = self._whole.pop()
        if whole is None or not isinstance(result, TensorDictBase):
            return None
        for key in declared(module, "out_keys"):
            value = result.get(key, None)
            if isinstance(value, Tensor):
                whole.set(key, value.reshape(*whole.shape, *value.shape[2:]))
        return whole


def _joined_sequence(module: nn.RNNBase, shape: torch.Size, result: Any) -> Any:
    """The outputs in the sequence's ``shape``, and the states behind its last step."""
    if not isinstance(result, tuple):  # it raised
        return None
    y, states = result
    time = 1 if module.batch_first else 0
    last = torch.arange(shape[:2].numel()).reshape(shape[:2]).select(time, -1)

    def behind(state: Tensor) -> Tensor:
        return state[:, last.to(state.device)]

    whole = y.reshape(*shape[:2], y.shape[2])
    return whole, tuple(map(behind, states)) if isinstance(states, tuple) else behind(states)


def _states(module: nn.Module) -> list[Any]:
    writes = declared(module, "out_keys")
    return [key for key in declared(module, "in_keys") if next_key(key) in writes]


def _steps(module: nn.Module, td: TensorDictBase) -> TensorDictBase:
    """``[steps, 1]``: what the module reads, with every start flag true and every state zero."""
    reads = declared(module, "in_keys")
    steps = td.select(*reads, strict=False).reshape(-1).unsqueeze(-1).copy()
    for key in _states(module):
        if steps.get(key, None) is not None:
            steps.set(key, torch.zeros_like(steps.get(key)))
    for key in reads:
        value = steps.get(key, None)
        if isinstance(value, Tensor) and value.dtype is torch.bool:
            steps.set(key, torch.ones_like(value))
    return steps
