"""What a loss is made of: the weights in its graph, beside those behind what a loss module gave."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor

_MOST = 20_000  # nodes that are walked: some thousand steps of a recurrent module's own loop
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
    first = getattr(loss, "grad_fn", None)
    seen, queue, found = set(behind), deque([first] if first is not None else []), set[int]()
    while queue:
        node = queue.popleft()
        if node in seen:
            continue
        seen.add(node)
        if len(seen) > _MOST + len(behind):
            return None
        if node.name().endswith(_LEAF):
            found.add(id(node.variable))
        queue.extend(following for following, _ in node.next_functions if following is not None)
    return found
