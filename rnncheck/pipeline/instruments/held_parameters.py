"""Parameters that stay what they were where a network runs without a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from rnncheck.pipeline.copying.all_modules import all_modules


@contextmanager
def constant_without_graph(network: nn.Module, kept: Mapping[str, Tensor]) -> Iterator[None]:
    """Inside, what of the network runs without a graph, as a burn-in does, has the parameters that
    are ``kept``, by name: a derivative that is taken in differences leaves out what autograd does.
    """
    held = _Held({id(p): kept[name] for name, p in network.named_parameters() if name in kept})
    handles = [
        handle
        for module in all_modules(network)
        if module._parameters
        for handle in (
            module.register_forward_pre_hook(held.before),
            module.register_forward_hook(held.behind, always_call=True),
        )
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Held:
    def __init__(self, kept: Mapping[int, Tensor]) -> None:
        self._kept = kept
        self._own: list[list[tuple[nn.Parameter, Tensor]]] = []  # of the calls that run

    def before(self, module: nn.Module, _given: object) -> None:
        swapped = list[tuple[nn.Parameter, Tensor]]()
        for one in () if torch.is_grad_enabled() else module._parameters.values():
            if one is not None and id(one) in self._kept:
                swapped.append((one, one.data))
                one.data = self._kept[id(one)]
        self._own.append(swapped)

    def behind(self, *_: object) -> None:
        for one, data in self._own.pop():
            one.data = data
