"""What parts of a policy gave for steps that a collector or ``env.rollout`` took: the policy is run
on them again, each by itself with the state that was stored beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.keys import Key, declared, tensor_keys
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.watching.forms.loss_pass import LossPass
from rnncheck.watching.forms.part_outputs import (
    PartOutputs,
    innermost_parts,
    of_one_step,
    part_key,
)
from rnncheck.watching.seen import Acting, Called

_OTHER_SEED = 2
_CLOSE = 1e-4  # relative and absolute: the same numbers, in other batches of a matrix product


def parts_of_steps(
    acting: Acting, loss: Called, own: Any, trained: TensorDictBase, *, time_first: bool
) -> Acting | None:
    """The same with its parts' outputs in its batches; None where the loss, as a function ``own``
    of batches ``[rows, steps]``, gives nothing by them on a ``trained`` one, or the policy itself
    runs in it."""
    if loss.itself or loss.switches or acting.kind == "steps":
        return None
    if not isinstance(acting.policy, nn.Module) or not acting.batches:
        return None
    try:
        found = [_with_parts(acting.policy, one) for one in (*acting.batches, *acting.further)]
        paths = sorted(set.intersection(*(set(given) for _, given in found)))
        parts = {path: acting.policy.get_submodule(path) for path in paths}
        with measuring(recurrent=loss.modes.recurrent, grad=True):
            given = LossPass(own, parts, trained, time_first=time_first)(trained)
    except Exception:  # modules of the user's may raise anything
        return None
    if not given:
        return None
    whole = [batch for batch, _ in found]
    count = len(acting.batches)
    return replace(acting, parts=paths, batches=whole[:count], further=whole[count:])


def _with_parts(policy: nn.Module, batch: TensorDictBase) -> tuple[TensorDictBase, dict[str, Key]]:
    """The batch with what parts give at each step, and where that stands."""
    asked = copy_of(policy, "the policy")
    written = set(declared(policy, "out_keys"))
    made = written - set(declared(policy, "in_keys"))  # by the step alone
    kept = [key for key in tensor_keys(batch) if key[0] != "next" and key not in made]
    given = batch.select(*kept)
    try:
        out, again, parts = _of_steps(asked, given.reshape(-1))
    except Exception:  # it may take as many rows as there are envs, and no more
        out, again, parts = _step_by_step(asked, given)
    # What declares no key is told by what it writes.
    if not _is_recorded(out, again, batch, written or set(tensor_keys(out))):
        raise RuntimeError("the policy gives something else for single steps")
    whole = batch.clone()
    for path, value in parts.items():
        whole.set(part_key(path), value.reshape(*batch.shape, *value.shape[out.ndim :]))
    return whole, {path: part_key(path) for path in parts}


def _of_steps(
    asked: nn.Module, steps: TensorDictBase
) -> tuple[TensorDictBase, TensorDictBase, dict[str, Tensor]]:
    """What the policy gives on single steps, the same again by other random numbers, and what its
    parts give."""
    with measuring(recurrent=False), torch.no_grad(), PartOutputs(innermost_parts(asked)) as noted:
        out = asked(steps.clone())
    with measuring(recurrent=False, explore=True, seed=_OTHER_SEED), torch.no_grad():
        again = asked(steps.clone())
    return out, again, of_one_step(noted.given, steps.batch_size)


def _step_by_step(
    asked: nn.Module, batch: TensorDictBase
) -> tuple[TensorDictBase, TensorDictBase, dict[str, Tensor]]:
    """The same of a batch ``[*rows, steps]``, one step after the other."""
    time = batch.ndim - 1
    outs, agains, parts = zip(*(_of_steps(asked, one) for one in batch.unbind(time)), strict=True)
    whole = {path: torch.stack([one[path] for one in parts], time) for path in parts[0]}
    return torch.stack(outs, time), torch.stack(agains, time), whole


def _is_recorded(
    out: TensorDictBase, again: TensorDictBase, batch: TensorDictBase, written: set[Key]
) -> bool:
    """Whether a state that it writes is the one that was recorded; those that are drawn, such as
    the action of the step, tell nothing."""
    steps = batch.reshape(out.shape)
    both = set(tensor_keys(steps)) & set(tensor_keys(out))
    states = [key for key in written if key[0] == "next" and key in both]
    drawn = {key for key in states if not torch.equal(out.get(key), again.get(key))}
    pairs = [(out.get(key), steps.get(key)) for key in states if key not in drawn]
    return bool(pairs) and all(_alike(one, other) for one, other in pairs)


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, _CLOSE, _CLOSE)
