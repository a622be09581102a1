"""Slices laid end to end that a loss of the script's own parts into rows again before it runs a
recurrent module over them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase

from rnncheck.pipeline.instruments.module_calls import ModuleCall, ModuleCalls
from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.placing import on_cpu
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.watching.seen import Called


def rows_inside(loss: Called, batch: TensorDictBase) -> torch.Size | None:
    """The shape that every pass over the flat ``batch`` has inside the loss, with the batch's steps
    in their order; None where they have several or the batch is no flat one."""
    if batch.batch_dims != 1:
        return None
    try:
        with measuring(recurrent=loss.modes.recurrent, grad=True), ModuleCalls() as inside:
            OwnLoss(loss.module, {}, loss.batch)(batch.clone())
    except Exception:  # a function of the user's may raise anything
        return None
    passes = [one for one in inside.passes if one.trained]
    shapes = {one.shape for one in passes}
    if len(shapes) != 1 or not all(_shows(one, batch) for one in passes):
        return None
    shape = shapes.pop()
    return shape if len(shape) > 1 and shape.numel() == batch.numel() else None


def _shows(one: ModuleCall, batch: TensorDictBase) -> bool:
    """Whether what the pass read of the batch stands in the batch's order: observations and states;
    what networks made of them in between has other weights by now."""
    shown = set(tensor_keys(batch))
    pairs = [
        (on_cpu(one.given.get(key)), batch.get(key))
        for key in tensor_keys(one.given)
        if key in shown and ("next", *key) in shown
    ]
    same = [a.numel() == b.numel() and torch.equal(a.reshape(b.shape), on_cpu(b)) for a, b in pairs]
    return all(same) and any(a.is_floating_point() and bool(a.any()) for a, _ in pairs)


def on_flat(loss: Callable[..., Any]) -> Callable[[TensorDictBase], Any]:
    """``loss`` as a function of a batch of rows, which it is given end to end."""
    return partial(_flattened, loss)


def _flattened(loss: Callable[..., Any], batch: TensorDictBase) -> Any:
    return loss(batch.reshape(-1))
