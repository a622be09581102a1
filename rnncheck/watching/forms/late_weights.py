"""Weights that workers of other processes were sent, and had not got yet when they collected."""

from __future__ import annotations

from contextlib import suppress

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.keys import Key, declared, tensor_keys
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.watching.seen import Acting, Sightings

# Far above what rounding of float32 makes of one step, far below what other weights do. Chosen.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-4
_LEAST = 2  # steps with other weights: one alone may be how an episode begins


def settle_late(seen: Sightings) -> None:
    """Who acted by weights that came too late is nobody that is known: what the script trains on
    was acted on by others."""
    for acting in seen.acting:
        if acting.sent is not None and isinstance(acting.policy, nn.Module):
            with suppress(Exception):  # the user's module may raise anything: that is judged
                acting.late = _came_late(acting)
            if acting.late:
                acting.policy = None


def _came_late(acting: Acting) -> bool:
    """Whether a batch was acted on with other weights from its first step on, and one that came
    behind with these: a fault of who acts would be there later on as well."""
    policy = copy_of(acting.policy, "the policy")
    batches = [_alike(policy, one) for one in acting.batches]
    further = [_alike(policy, one) for one in acting.further]
    telling = {key for one in further for key, alike in one.items() if bool(alike.all())}
    return any(_from_a_step_on(one[key]) for one in batches for key in telling & one.keys())


def _from_a_step_on(alike: Tensor) -> bool:
    """Whether no row is alike up to a step, and all are from there on, or that lies behind them."""
    first = int(alike.any(0).long().argmax()) if bool(alike.any()) else alike.shape[1]
    return first >= _LEAST and bool(alike[:, first:].all())


def _alike(policy: nn.Module, batch: TensorDictBase) -> dict[Key, Tensor]:
    """By output of the policy, at which steps it gives what was recorded, ``[rows, steps]``, each
    step for itself, from the state that was recorded there."""
    reads, steps = list(declared(policy, "in_keys")), batch.shape[-1]
    with measuring(recurrent=False), torch.no_grad():
        out = policy(batch.reshape(-1).select(*reads).clone())
    found = dict[Key, Tensor]()
    for key in declared(policy, "out_keys"):
        if key not in tensor_keys(batch) or not batch.get(key).is_floating_point():
            continue
        rows = batch.numel() // steps
        was, now = (one.reshape(rows, steps, -1) for one in (batch.get(key), out.get(key)))
        found[key] = torch.isclose(now, was, rtol=_RELATIVE, atol=_ABSOLUTE).all(-1)
    return found
