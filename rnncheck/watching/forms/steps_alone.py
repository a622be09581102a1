"""Along what a policy and a loss run over a batch, told by which of the states beside its steps
they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn

from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.keys import Key, tensor_items, tensor_keys
from rnncheck.pipeline.subject.modes import measuring


def steps_alone(policy: Any, own: Callable[[TensorDictBase], Any], trained: TensorDictBase) -> bool:
    """Whether the policy, on a training batch ``[rows, steps]``, reads the state that stands beside
    each of its steps, and the loss, as a function ``own`` of such batches, none but the first of a
    row: the policy as a whole is not what that runs. Nor is it where it raises on the batch."""
    if not isinstance(policy, nn.Module) or trained.ndim < 2 or trained.shape[-1] < 2:
        return False
    try:
        asked = copy_of(policy, "the policy")
        out = _or_none(asked, trained.exclude("next"))
        if out is None:
            return _or_none(asked, trained.exclude("next").reshape(-1)) is not None
        states = _states(out, trained)
        moved = _moved(trained, states, trained.ndim - 1)
        if not states or not _differ(out, _run(asked, moved.exclude("next"))):
            return False
        return _loss_of(own, trained) == _loss_of(own, moved)
    except Exception:  # what a script does may be anything
        return False


def runs_along_the_last(
    policy: Any, own: Callable[[TensorDictBase], Any], batch: TensorDictBase
) -> bool:
    """Whether the loss reads the states beside the first steps along the last dimension of a batch
    of two, and not those along the first: the last is what it runs along, however it is laid."""
    if not isinstance(policy, nn.Module) or batch.ndim != 2 or min(batch.shape) < 2:
        return False
    try:
        out = _run(copy_of(policy, "the policy"), batch.exclude("next").reshape(-1))
        states, base = _states(out, batch), _loss_of(own, batch)
        last, first = (_loss_of(own, _moved(batch, states, dim)) for dim in (1, 0))
        return bool(states) and last == base != first
    except Exception:  # what a script does may be anything
        return False


def _states(out: TensorDictBase, batch: TensorDictBase) -> list[Key]:
    """What was written under ``next`` and stands beside the steps."""
    written = [key[1:] for key in tensor_keys(out) if key[0] == "next"]
    return [key for key in written if key in tensor_keys(batch)]


def _or_none(asked: nn.Module, batch: TensorDictBase) -> TensorDictBase | None:
    try:
        return _run(asked, batch)
    except Exception:  # a module of the user's may raise anything
        return None


def _run(asked: nn.Module, batch: TensorDictBase) -> TensorDictBase:
    with measuring(recurrent=True), torch.no_grad():
        found: TensorDictBase = asked(batch.clone())
    return found


def _moved(batch: TensorDictBase, states: list[Key], dim: int) -> TensorDictBase:
    """With other states beside all steps along ``dim`` but the first, and those that begin an
    episode: a pass over time reads these as well."""
    whole = batch.clone()
    for key in states:
        value = whole.get(key)
        later = torch.ones(batch.shape, dtype=torch.bool)
        later.narrow(dim, 0, 1).fill_(False)
        later &= ~_starts(batch)
        value[later.to(value.device)] += 1 if value.is_floating_point() else 0
    return whole


def _starts(batch: TensorDictBase) -> torch.Tensor:
    """``[*batch]``: marked by any start flag."""
    found = torch.zeros(batch.shape, dtype=torch.bool)
    for key, value in tensor_items(batch):
        if key[0] != "next" and key[-1] == "is_init" and value.dtype is torch.bool:
            found |= value.reshape(*batch.shape, -1).any(-1).cpu()
    return found


def _differ(one: TensorDictBase, other: TensorDictBase) -> bool:
    """Whether what was made under ``next`` does: an action may be drawn."""
    keys = [key for key in tensor_keys(one) if key[0] == "next"]
    return any(not torch.equal(one.get(key), other.get(key)) for key in keys)


def _loss_of(own: Callable[[TensorDictBase], Any], batch: TensorDictBase) -> list[float]:
    loss = OwnLoss(own, {})
    with measuring(recurrent=True, grad=True):
        found = loss(batch.clone())
    return [float(one.detach().double().sum()) for one in found.values()]
