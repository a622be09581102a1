"""What tells one collected step from another in what is trained on: what the env showed there."""

from __future__ import annotations

from collections.abc import Iterator

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.numerics.bits import value_bits
from rnncheck.pipeline.keys import Key, declared, tensor_keys
from rnncheck.watching.seen import Acting

_LEAST = 8  # states that must be others before it is no chance
_MOSTLY = 0.99  # of the observations must belong to one state: tokens and grids come again


def states_of(acting: Acting) -> list[Key]:
    """Those that were collected."""
    writes = {*declared(acting.policy, "out_keys"), *acting.writes}
    return [key for key in tensor_keys(acting.batches[0]) if ("next", *key) in writes]


def changed_states(acting: Acting, given: list[TensorDictBase], told_by: list[Key]) -> list[Key]:
    """Its states that are others where they are trained from than where they were collected."""
    found = []
    for key in states_of(acting):
        if any(key not in tensor_keys(one) for one in given):
            continue
        true = dict(_pairs(acting.batches, told_by, key))
        pairs = [(true.get(at), state) for at, state in _pairs(given, told_by, key)]
        known = [(one, state) for one, state in pairs if one is not None]
        other = sum(one != state for one, state in known)
        if other >= _LEAST and 2 * other >= sum(any(one) for one, _ in known):
            found.append(key)
    return found


def tells(batches: list[TensorDictBase], told_by: list[Key], keys: list[Key]) -> bool:
    """Whether what was observed behind the first steps of episodes tells one step from another."""
    states = dict[bytes, set[bytes]]()
    for key in keys:
        for at, state in _pairs(batches, told_by, key):
            if any(state):
                states.setdefault(at, set()).add(state)
    alone = sum(len(one) <= len(keys) for one in states.values())
    return alone >= _MOSTLY * len(states)


def _pairs(
    batches: list[TensorDictBase], told_by: list[Key], key: Key
) -> Iterator[tuple[bytes, bytes]]:
    """What tells each step, and its state."""
    for batch in batches:
        yield from zip(whole_prints(batch, told_by), step_prints(batch, key), strict=True)


def lays_rows_end_to_end(
    collected: list[TensorDictBase], given: list[TensorDictBase], told_by: list[Key]
) -> bool:
    """Whether what is trained on has the first step of a collected row behind the last step of
    another."""
    if collected[0].batch_dims < 2 or given[0].shape[-1] <= collected[0].shape[-1]:
        return False
    first, last = (
        {at for one in collected for at in whole_prints(one[..., edge], told_by)}
        for edge in (0, -1)
    )
    return any(
        at in first and before in last for one in given for _, before, at in joined(one, told_by)
    )


def begin_with_zeros(
    collected: list[TensorDictBase],
    given: list[TensorDictBase],
    told_by: list[Key],
    states: list[Key],
) -> bool:
    """Whether rows are trained on as they were collected, and all begin with zeros for their
    ``states``."""
    if not states or any(one.batch_dims < 1 for one in (*collected, *given)):
        return False
    first = {at for one in collected for at in whole_prints(one[..., 0], told_by)}
    openings = [one[..., 0] for one in (*collected, *given)]
    whole = all(set(whole_prints(one[..., 0], told_by)) <= first for one in given)
    return whole and not any(bool(not_zero(one, k).any()) for one in openings for k in states)


def joined(td: TensorDictBase, told_by: list[Key]) -> Iterator[tuple[int, bytes, bytes]]:
    """The neighbours in time of the batch that do not follow each other: the number of the later
    one, and what tells both."""
    steps, following = td.shape[-1], [("next", *key) for key in told_by]
    if not {*following} <= {*tensor_keys(td)}:
        return
    told, behind = whole_prints(td, told_by), whole_prints(td, following)
    for number, at in enumerate(told):
        if number % steps and behind[number - 1] != at:
            yield number, told[number - 1], at


def not_zero(batch: TensorDictBase, key: Key) -> Tensor:
    """``[steps]`` of the batch, whatever its dimensions."""
    value: Tensor = batch.get(key)
    return value.reshape(batch.numel(), -1).any(1)


def observed_keys(
    collected: list[TensorDictBase], given: list[TensorDictBase], writes: set[Key]
) -> list[Key]:
    """What the env showed of a step, and stands in what is trained on as it was collected."""
    shown = set(tensor_keys(collected[0]))
    floats = [key for key in tensor_keys(given[0]) if given[0].get(key).is_floating_point()]
    both = [key for key in floats if key[0] != "next" and ("next", *key) in shown - writes]
    # A collector may leave out what is observed next.
    return [
        key
        for key in both or [one for one in floats if one[0] != "next" and one not in writes]
        if stands(key, collected, given)
    ]


def telling_keys(acting: Acting, given: list[TensorDictBase]) -> list[Key]:
    """The same of who acts, without what it hands on itself; none where nothing that it reads is
    among them: beside steps of other collectors, what counts steps or rewards tells nothing."""
    writes = {*declared(acting.policy, "out_keys"), *acting.writes}
    found = observed_keys(acting.batches, given, writes)
    told, read = (
        [k for k in found if ("next", *k) not in writes],
        declared(acting.policy, "in_keys"),
    )
    return told if not read or {*read} & {*told} else []


def said_keys(acting: Acting, given: list[TensorDictBase]) -> list[Key]:
    """What who acts said at each step and did not hand on, such as log-probabilities, and stands in
    what is trained on: where what is shown comes again it tells more."""
    states, shown = set(states_of(acting)), set(tensor_keys(acting.batches[0]))
    said = {*declared(acting.policy, "out_keys"), *acting.writes} & shown - states
    return [
        key
        for key in sorted(said)
        if key[0] != "next"
        and acting.batches[0].get(key).is_floating_point()
        and stands(key, acting.batches, given)
    ]


def stands(key: Key, collected: list[TensorDictBase], given: list[TensorDictBase]) -> bool:
    """Whether what is trained on has nothing there but what was collected."""
    if any(key not in tensor_keys(one) for one in (*collected, *given)):
        return False
    have = {one for batch in collected for one in step_prints(batch, key)}
    return len(have) > 1 and {one for batch in given for one in step_prints(batch, key)} <= have


def whole_prints(batch: TensorDictBase, keys: list[Key]) -> list[bytes]:
    """What tells each step by all of the entries."""
    return [b"".join(one) for one in zip(*(step_prints(batch, k) for k in keys), strict=True)]


def step_prints(batch: TensorDictBase, key: Key) -> list[bytes]:
    """An entry of each step, ``[steps]`` of the batch, whatever its dimensions."""
    value: Tensor = batch.get(key)
    return [row.tobytes() for row in value_bits(value.reshape(batch.numel(), -1)).numpy()]
