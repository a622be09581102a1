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


def parameters_taken(modules: Iterable[nn.Module]) -> Weights:
    """Copies of the parameters alone: what a layer counts as it runs is no other weight."""
    held = (one for module in modules for one in module.parameters() if not is_lazy(one))
    return {id(one): (one, one.detach().clone()) for one in held}


def changed(weights: Weights) -> bool:
    """Whether any of them holds something else by now."""
    return any(not torch.equal(one, before) for one, before in weights.values())


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
