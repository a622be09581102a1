"""Whether a policy takes every step of a batch alone, while the loss runs parts of it over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn

from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.modes import measuring


def steps_alone(policy: Any, own: Callable[[TensorDictBase], Any], trained: TensorDictBase) -> bool:
    """Whether the policy, on a training batch ``[rows, steps]``, reads the state that stands beside
    each of its steps, and the loss, as a function ``own`` of such batches, none but the first of a
    row: the policy as a whole is not what that runs."""
    if not isinstance(policy, nn.Module) or trained.ndim < 2 or trained.shape[-1] < 2:
        return False
    try:
        asked = copy_of(policy, "the policy")
        plain = trained.exclude("next")
        out = _run(asked, plain)
        states = [key[1:] for key in tensor_keys(out) if key[0] == "next"]
        states = [key for key in states if key in tensor_keys(plain)]
        moved = _moved(trained, states)
        if not states or not _differ(out, _run(asked, moved.exclude("next"))):
            return False
        return _loss_of(own, trained) == _loss_of(own, moved)
    except Exception:  # what a script does may be anything
        return False


def _run(asked: nn.Module, batch: TensorDictBase) -> TensorDictBase:
    with measuring(recurrent=True), torch.no_grad():
        found: TensorDictBase = asked(batch.clone())
    return found


def _moved(batch: TensorDictBase, states: list[Key]) -> TensorDictBase:
    """With other states beside all steps of a row but the first."""
    whole = batch.clone()
    for key in states:
        value = whole.get(key)
        later = value.narrow(batch.ndim - 1, 1, batch.shape[-1] - 1)
        later += 1 if later.is_floating_point() else 0
    return whole


def _differ(one: TensorDictBase, other: TensorDictBase) -> bool:
    """Whether what was made under ``next`` does: an action may be drawn."""
    keys = [key for key in tensor_keys(one) if key[0] == "next"]
    return any(not torch.equal(one.get(key), other.get(key)) for key in keys)


def _loss_of(own: Callable[[TensorDictBase], Any], batch: TensorDictBase) -> list[float]:
    loss = OwnLoss(own, {})
    with measuring(recurrent=True, grad=True):
        found = loss(batch.clone())
    return [float(one.detach().double().sum()) for one in found.values()]
