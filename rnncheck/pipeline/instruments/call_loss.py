"""Forming a loss as users do: call it, sum what it calls a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.errors import StageError
from rnncheck.pipeline.instruments.own_loss import is_number_with_graph, losses_in

LossParts = dict[str, Tensor]


def form_loss(
    loss: Callable[[TensorDictBase], Any], td: TensorDictBase
) -> tuple[Tensor, LossParts]:
    """Call ``loss`` on a copy of ``td``: the scalar that a user would call ``backward`` on, and its
    parts.

    The total is the sum of all entries whose name starts with ``loss``, each averaged where it is
    not reduced. A returned tensor is the one part ``loss``; of a tuple the first member is the
    loss, or all of them where all are numbers with a graph. Runs in the caller's modes.
    """
    return total_of(loss(td.clone()))


def total_of(result: Any) -> tuple[Tensor, LossParts]:
    """The total and the parts of what a loss returned."""
    parts = _parts(result)
    if not parts:
        raise StageError("loss", f"the loss gave {_said(result)}: no entry's name starts with loss")
    return torch.stack([part.mean() for part in parts.values()]).sum(), parts


def _parts(result: Any) -> LossParts:
    if isinstance(result, (tuple, list)) and result:
        several = all(map(is_number_with_graph, result))  # actor and critic, say
        return losses_in(result) if several else _parts(result[0])
    if isinstance(result, Tensor):
        return {"loss": result}
    entries = result.items() if isinstance(result, (TensorDictBase, Mapping)) else ()
    return {str(k): v for k, v in _losses(entries)}


def _losses(entries: Iterable[tuple[Any, Any]]) -> Iterable[tuple[str, Tensor]]:
    for key, value in entries:
        if isinstance(key, str) and key.startswith("loss") and isinstance(value, Tensor):
            yield key, value


def _said(result: Any) -> str:
    if isinstance(result, (TensorDictBase, Mapping)):
        names = [str(key) for key, _ in result.items()]
        return "the entries " + (", ".join(names) or "(none)")
    return "None" if result is None else f"an object of type {type(result).__name__}"
