"""Steps that a policy took while it was trained at each of them: no two are of the same weights."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rnncheck.pipeline.keys import tensor_keys
from rnncheck.watching.forms.acted_again import ActedAgain
from rnncheck.watching.forms.plain_calls import ACTION
from rnncheck.watching.forms.plain_policy import PlainPolicy
from rnncheck.watching.seen import Acting, Sightings


def settle_moved(seen: Sightings) -> None:
    """What who acts computed in such steps is told as by the weights that are judged: what the env
    showed and got is as it was, and states were carried and put back where they were."""
    for acting in seen.acting:
        if acting.moved and isinstance(acting.policy, PlainPolicy):
            _settle(acting, acting.policy)


@torch.no_grad()
def _settle(acting: Acting, policy: PlainPolicy) -> None:
    first = acting.random or 0
    own = [one if policy.batched else one.unsqueeze(0) for one in acting.batches[first:]]
    anew = by_these_weights(policy, torch.cat(own, 1))
    parts = anew.split([one.shape[1] for one in own], 1)
    acting.batches[first:] = [
        (one if policy.batched else one[0]).contiguous().clone() for one in parts
    ]


def by_these_weights(policy: PlainPolicy, steps: TensorDictBase) -> TensorDictBase:
    """The steps ``[rows, steps]`` with what the policy computes there now in the place of what it
    computed then; its actions, and what it was given of these, are those that were taken."""
    anew, found = ActedAgain(policy, as_recorded=True)(steps), steps.clone()
    kept = {(ACTION,), *(told.source for told in policy.told.before.values())}
    for key in set(tensor_keys(anew)) & set(tensor_keys(steps)) - kept:
        was = steps.get(key)
        found.set(key, anew.get(key).reshape(was.shape).to(was.dtype))
    for key in {slot.key for slot in policy.told.carry.values()} & set(tensor_keys(found)):
        was, gave = steps.get(key), steps.get(("next", *key))
        rows, number = was.shape[:2]
        same = (was[:, 1:] == gave[:, :-1]).reshape(rows, number - 1, -1).all(-1)
        goes_on = same.reshape(*same.shape, *[1] * (was.ndim - 2))
        carried = torch.where(goes_on, found.get(("next", *key))[:, :-1], was[:, 1:])
        found.set(key, torch.cat([was[:, :1], carried], 1))
    return found
