"""Which calls of networks inside a loss get no gradient, and the same loss with those calls held as
they were."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.instruments.vmap import is_batched
from rnncheck.pipeline.keys import declared


class Calls:
    """Numbers the calls of networks while the context is open, wherever they are kept.

    A network is an innermost module with keys, or outside of one a module that owns parameters.
    Calls in ``held`` are made with the parameters of ``old``, by the address of the present ones.
    """

    def __init__(
        self, held: frozenset[int] = frozenset(), old: dict[int, Tensor] | None = None
    ) -> None:
        self.given: list[list[Tensor]] = []  # what each call gave
        self._held, self._old = held, old or {}
        self._open: list[tuple[nn.Module, int, list[tuple[Tensor, Tensor]]]] = []
        self._known: MutableMapping[nn.Module, bool] = WeakIdKeyDictionary()

    def __enter__(self) -> Calls:
        self._handles = [
            hooks.register_module_forward_pre_hook(self._begins),
            hooks.register_module_forward_hook(self._ends, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _begins(self, module: nn.Module, args: Any) -> None:
        if self._open or not self._is_network(module):
            return
        number = len(self.given)
        self.given.append([])
        swapped = list(self._swapped(module)) if number in self._held else []
        self._open.append((module, number, swapped))

    def _ends(self, module: nn.Module, args: Any, result: Any) -> None:
        if not self._open or self._open[-1][0] is not module:
            return
        _, number, swapped = self._open.pop()
        for parameter, present in swapped:
            parameter.data = present
        self.given[number] = list(_tensors(module, result))

    def _is_network(self, module: nn.Module) -> bool:
        if module not in self._known:
            parts = [part for part in all_modules(module) if declared(part, "in_keys")]
            owns = any(value is not None for value in module._parameters.values())
            self._known[module] = parts == [module] or (owns and not parts)
        return self._known[module]

    def _swapped(self, module: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
        for part in all_modules(module):
            for value in (*part._parameters.values(), *part._buffers.values()):
                if value is None or is_batched(value):
                    continue
                old = self._old.get(value.data_ptr())
                if old is not None and old.shape == value.shape:
                    yield value, value.data
                    value.data = old


def _tensors(module: nn.Module, result: Any) -> Iterator[Tensor]:
    if isinstance(result, TensorDictBase):
        found = [result.get(key, None) for key in declared(module, "out_keys")]
    else:
        found = tree_leaves(result)
    yield from (value for value in found if isinstance(value, Tensor))


def idle(calls: Calls, total: Tensor) -> frozenset[int]:
    """The calls whose outputs get no gradient from ``total``: targets, and what is detached."""
    found = []
    for number, given in enumerate(calls.given):
        if any(map(is_batched, given)):
            continue
        live = [value for value in given if value.requires_grad]
        grads = (
            torch.autograd.grad(total, live, retain_graph=True, allow_unused=True) if live else ()
        )
        if given and all(grad is None for grad in grads):
            found.append(number)
    return frozenset(found)
