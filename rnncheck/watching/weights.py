"""The weights that collected and trained on the same data: those before the first update."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


def as_acted_with(held: Weights, buffers: Weights) -> Weights:
    """The weights with these buffers as they were then, also where a loss holds the same memory by
    another name."""
    then = {(one.data_ptr(), one.shape): before for one, before in buffers.values()}
    return held | {
        key: (one, then[one.data_ptr(), one.shape])
        for key, (one, _) in held.items()
        if one.numel() and (one.data_ptr(), one.shape) in then
    }


def parameters_taken(modules: Iterable[nn.Module]) -> Weights:
    """Copies of the parameters alone: what a layer counts as it runs is no other weight."""
    held = (one for module in modules for one in module.parameters() if not is_lazy(one))
    return {id(one): (one, one.detach().clone()) for one in held}


def buffers_taken(modules: Iterable[nn.Module]) -> Weights:
    """Copies of the buffers alone, such as running means."""
    held = (one for module in modules for one in module.buffers() if not is_lazy(one))
    return {id(one): (one, one.detach().clone()) for one in held}


def have_changed(weights: Weights) -> bool:
    """Whether any of them holds something else by now."""
    return any(not is_equal(one, before) for one, before in weights.values())


def is_stepped(acting: Sequence[Tensor], stepped: Sequence[Tensor]) -> bool:
    """Whether some of the ``acting`` weights are ``stepped``, or copies of all of them are."""
    ids = {id(one) for one in stepped}
    if any(id(one) in ids for one in acting):
        return True
    return bool(acting) and all(any(is_equal(one, other) for other in stepped) for one in acting)


def is_equal(one: Tensor, other: Tensor) -> bool:
    """Alike to the bit, on one device."""
    if is_lazy(one) or is_lazy(other) or one.device != other.device:
        return False
    return one.shape == other.shape and torch.equal(one, other)


@torch.no_grad()
def put(weights: Weights) -> None:
    """Write them back into the tensors that they were taken from."""
    for tensor, held in weights.values():
        if tensor.shape == held.shape:
            tensor.data.copy_(held)


def unfreeze(trained: Iterable[Tensor]) -> None:
    """They want gradients again: a script may freeze some while it trains others, and is ended
    there."""
    for one in trained:
        if one.is_leaf:
            one.requires_grad_(True)


@contextmanager
def instead(weights: Weights) -> Iterator[None]:
    """These weights inside, those that were there before afterwards."""
    before = {key: (one, one.detach().clone()) for key, (one, _) in weights.items()}
    put(weights)
    try:
        yield
    finally:
        put(before)
