"""The weights that collected and trained on the same data: those before the first update."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

Weights = dict[int, tuple[Tensor, Tensor]]  # by id: the tensor, and a copy of what it held


def taken(modules: Iterable[nn.Module], stepped: Iterable[Tensor] = ()) -> Weights:
    """Copies of all parameters and buffers, and of what optimisers step."""
    found: Weights = {}
    held = (tensor for one in modules for tensor in (*one.parameters(), *one.buffers()))
    for tensor in (*held, *stepped):
        if id(tensor) not in found and not is_lazy(tensor):
            found[id(tensor)] = (tensor, tensor.detach().clone())
    return found


@torch.no_grad()
def put(weights: Weights) -> None:
    """Write them back into the tensors that they were taken from."""
    for tensor, held in weights.values():
        if tensor.shape == held.shape:
            tensor.data.copy_(held)


@contextmanager
def instead(weights: Weights) -> Iterator[None]:
    """These weights inside, those that were there before afterwards."""
    before = {key: (one, one.detach().clone()) for key, (one, _) in weights.items()}
    put(weights)
    try:
        yield
    finally:
        put(before)
