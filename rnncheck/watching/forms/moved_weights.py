"""Steps that a policy took while it was trained at each of them: no two are of the same weights."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rnncheck.pipeline.keys import tensor_keys
from rnncheck.watching.forms.acted_again import ActedAgain
from rnncheck.watching.forms.plain_calls import ACTION
from rnncheck.watching.forms.plain_policy import PlainPolicy
from rnncheck.watching.forms.time_axis import prints
from rnncheck.watching.seen import Acting, Sightings

_UNKNOWN = (
    "sequences of its memory begin with states of steps whose actions were random, which were not"
    " seen to be made: store zeros there, or leave those steps out"
)


def settle_moved(seen: Sightings) -> None:
    """What who acts computed in such steps is told as by the weights that are judged: what the env
    showed and got is as it was, and states were carried and put back where they were. So are states
    that a memory holds of them; of steps of random actions nobody knows the states."""
    for acting in seen.acting:
        policy = acting.policy
        if isinstance(policy, PlainPolicy) and acting.random is not None:
            was, now = _settled(acting, policy)
            for called in [one for one in seen.losses if one.holds_states]:
                if not all(_put_states(one, was, now, policy) for one in called.inputs):
                    seen.losses.remove(called)
                    seen.unseen = _UNKNOWN


@torch.no_grad()
def _settled(acting: Acting, policy: PlainPolicy) -> tuple[TensorDictBase, TensorDictBase]:
    """The policy's own steps ``[rows, steps]``, as they were and as they are told."""
    first = acting.random or 0
    own = [one if policy.batched else one.unsqueeze(0) for one in acting.batches[first:]]
    was = torch.cat(own, 1)
    now = by_these_weights(policy, was) if acting.moved else was
    parts = now.split([one.shape[1] for one in own], 1)
    acting.batches[first:] = [
        (one if policy.batched else one[0]).contiguous().clone() for one in parts
    ]
    return was, now


def _put_states(
    batch: TensorDictBase, was: TensorDictBase, now: TensorDictBase, policy: PlainPolicy
) -> bool:
    """Tell states of a batch ``[rows, steps]`` as those of the steps are; False where a row begins
    with one that is of none of them."""
    there = set(tensor_keys(was))
    for key in [slot.key for slot in policy.told.carry.values()]:
        entries = [one for one in (key, ("next", *key)) if one in there]
        known = {
            one: value
            for entry in entries
            for one, value in zip(
                prints(was.get(entry).flatten(0, 1)), now.get(entry).flatten(0, 1), strict=True
            )
        }
        mine = batch.get(key).flatten(0, 1)
        for number, one in enumerate(prints(mine)):
            if one in known:
                mine[number] = known[one]
            elif number % batch.shape[1] == 0 and bool(mine[number].any()):
                return False
        batch.set(key, mine.reshape(batch.get(key).shape))
    return True


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
