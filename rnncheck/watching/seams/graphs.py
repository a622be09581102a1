"""What a loss is made of: the weights in its graph, beside those behind what a loss module gave."""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Iterator, Sequence
from graphlib import TopologicalSorter
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor

_MOST = 20_000  # nodes that are walked: some thousand steps of a recurrent module's own loop
# Of matrix products, convolutions and recurrent layers, in the names of their backward nodes.
_LAYERS = "Gru", "Lstm", "Rnn", "gru", "lstm", "rnn"
_PRODUCTS = (
    *("AddmmBackward", "BmmBackward", "BaddbmmBackward", "LinearBackward", "MmBackward"),
    *("AddmvBackward", "CompiledFunction", "Convolution", "MvBackward"),
    *_LAYERS,
)
_LEAF = "AccumulateGrad"


def nodes_of(result: Any) -> list[Any]:
    """The nodes of a graph that a loss module's result ends in."""
    return [one.grad_fn for one in _tensors(result) if one.grad_fn is not None]


def _tensors(result: Any) -> Iterator[Tensor]:
    """Those in it: some losses give their batch as well."""
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, TensorDictBase):
        yield from result.values(True, True)
    elif isinstance(result, Sequence):
        for one in result:
            yield from _tensors(one)


def weights_in(loss: Any, behind: Collection[Any]) -> set[int] | None:
    """The weights that ``loss`` is made of, by id, without those that enter it by the nodes
    ``behind``; None where its graph is too large to be walked."""
    nodes = _nodes(loss, behind)
    return None if nodes is None else {id(n.variable) for n in nodes if n.name().endswith(_LEAF)}


def runs_networks(loss: Any, behind: Collection[Any]) -> bool:
    """Whether weights are multiplied with something, or are in a recurrent layer, elsewhere in it:
    a penalty on weights does nothing of that."""
    names = [node.name() for node in _nodes(loss, behind) or ()]
    return any(product in name for name in names for product in _PRODUCTS)


def runs_over_steps(loss: Any, behind: Collection[Any]) -> bool:
    """Whether a network's memory is run in it: by one of torch's recurrent layers, or by weights
    that are multiplied with what they have given before."""
    nodes = _nodes(loss, behind) or []
    if any(layer in node.name() for node in nodes for layer in _LAYERS):
        return True
    inside = {node: [one for one, _ in node.next_functions] for node in nodes}
    weights, alone = dict[Any, int](), set[Any]()  # as bits, and the nodes that are one, reshaped
    for node in TopologicalSorter(inside).static_order():
        following = [one for one in inside.get(node, ()) if weights.get(one)]
        if not following:
            weights[node] = (1 << len(weights)) * _is_leaf(node)
            alone |= {node} if weights[node] else set()
            continue
        weights[node] = functools.reduce(operator.or_, map(weights.__getitem__, following))
        alone |= {node} if len(following) == 1 and following[0] in alone else set()
        factors = [weights[one] for one in following if one in alone]
        others = [weights[one] for one in following if one not in alone]
        again = any(one & other for one in factors for other in others)
        if again and any(product in node.name() for product in _PRODUCTS):
            return True
    return False


def _is_leaf(node: Any) -> bool:
    return node is not None and bool(node.name().endswith(_LEAF))


def leads_to(loss: Any, nodes: Collection[Any]) -> bool:
    """Whether the ``loss`` is computed by one of the ``nodes``."""
    return not set(nodes).isdisjoint(_nodes(loss, ()) or ())


def _nodes(loss: Any, behind: Collection[Any]) -> list[Any] | None:
    """All that the ``loss`` is computed by, but for what leads to the nodes ``behind``."""
    first = getattr(loss, "grad_fn", None)
    seen = {None, *behind}
    found: list[Any] = [first] if first not in seen else []
    seen.update(found)
    most = _MOST + len(seen)
    for node in found:
        for following, _ in node.next_functions:
            if following not in seen:
                seen.add(following)
                found.append(following)
        if len(seen) > most:
            return None
    return found
