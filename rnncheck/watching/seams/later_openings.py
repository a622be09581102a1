"""The states that rows of later batches are trained from, where the first batches cannot tell: all
of their rows begin with episodes, and the script has changed the states behind that."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from rnncheck.pipeline.keys import Key, declared, tensor_keys
from rnncheck.watching.forms.plain_policy import PlainEnv
from rnncheck.watching.observer import Watching
from rnncheck.watching.seen import Acting

_LEAST = 8  # states that must be others before it is no chance
_MOST_BATCHES = 3  # that are waited for: where none of them begins inside of an episode, none does
_MOST_UPDATES, _MOST_SECONDS = 400, 60.0  # that are waited for at most: PPO takes some hundred
_MOST_OPENINGS = 256
_MOSTLY = 0.99  # of the observations must belong to one state: tokens and grids come again


def later_seams(watching: Watching, scope: ExitStack) -> None:
    """Open them until ``scope`` ends; nothing is done before the first update shows the need."""
    LaterOpenings(watching, scope)


class LaterOpenings:
    """Holds the states that a later batch begins with against those that it is trained from."""

    def __init__(self, watching: Watching, scope: ExitStack) -> None:
        self._watching, self._scope = watching, scope
        self._acting: Acting | None = None  # where it is waited for
        self._steps = False  # by itself, one by one
        self._keys: list[Key] = []  # of states
        self._told_by: list[Key] = []  # what tells one step from another
        self._open = dict[bytes, TensorDictBase]()  # states by what was observed there
        self._batches, self._update = 0, -1  # the latest that a window began behind
        self._since: float | None = None
        watching.at_the_first_update.append(self._begin)
        watching.at_a_later_batch.append(self._collected)
        watching.waits.append(self._waits)

    def _begin(self) -> None:
        acting, loss = self._watching.seen.actor(), self._watching.seen.loss()
        if acting is None or loss is None or not acting.batches:
            return
        if isinstance(acting.make_env, PlainEnv):  # nothing tells of its later batches
            return
        with suppress(Exception):  # what a script holds may be anything
            writes = {*declared(acting.policy, "out_keys"), *acting.writes}
            told_by = _observed(acting.batches, loss.inputs, writes)
            self._told_by = [key for key in told_by if ("next", *key) not in writes]
            self._keys = _changed(acting, loss.inputs, self._told_by) if self._told_by else []
        if self._keys and _tells(acting.batches, self._told_by, self._keys):
            self._acting, self._steps = acting, acting.kind == "steps"
            handle = register_module_forward_pre_hook(self._trained)
            self._scope.callback(handle.remove)

    def _collected(self, acting: Acting, batch: TensorDictBase) -> None:
        if acting is self._acting and self._batches < _MOST_BATCHES:
            with suppress(Exception):  # a batch of another form than those before
                self._note(batch)

    def _note(self, batch: TensorDictBase) -> None:
        """A batch with the time last, or one step of each env."""
        steps, update = self._steps, self._watching.seen.steps
        if steps and update == self._update:  # a window that goes on
            return
        self._update, self._batches = update, self._batches + 1
        first = batch if steps else batch.reshape(-1, batch.shape[-1])[:, 0]
        keys = set(tensor_keys(first))
        if not keys >= {*self._keys, *self._told_by}:
            return
        rows = first.reshape(-1).select(*self._keys, *self._told_by).detach().clone()
        moved = torch.stack([_not_zero(rows, key) for key in self._keys]).any(0)
        if not bool(moved.any()):
            return
        chosen = rows[moved][:_MOST_OPENINGS]
        for at, row in zip(self._told(chosen), chosen.unbind(0), strict=True):
            self._open[at] = row.select(*self._keys)

    def _trained(self, _module: nn.Module, inputs: Any) -> None:
        """A module is about to run, maybe on a batch that is trained on."""
        acting = self._acting
        td = inputs[0] if inputs else None
        if acting is None or not self._open or not isinstance(td, TensorDictBase):
            return
        if td.batch_dims < 1 or not torch.is_grad_enabled():
            return
        with suppress(Exception):  # under vmap, or of a form that was not seen before
            found = self._given(td)
            if found:
                acting.openings.append(torch.stack(found))
                self._acting = None

    def _given(self, td: TensorDictBase) -> list[TensorDictBase]:
        keys = set(tensor_keys(td))
        if not keys >= {*self._keys, *self._told_by}:
            return []
        rows = td.reshape(-1).select(*self._keys, *self._told_by).detach()
        found = []
        for number, at in enumerate(self._told(rows)):
            collected = self._open.get(at)
            if collected is not None:
                given = rows[number].select(*self._keys).clone()
                found.append(TensorDict({"given": given, "collected": collected}))
        return found

    def _told(self, rows: TensorDictBase) -> list[bytes]:
        return [
            b"".join(one) for one in zip(*(_prints(rows, k) for k in self._told_by), strict=True)
        ]

    def _waits(self) -> bool:
        if self._acting is None or (self._batches >= _MOST_BATCHES and not self._open):
            return False
        now = time.monotonic()
        self._since = self._since or now
        late = now - self._since > _MOST_SECONDS or self._watching.seen.updates > _MOST_UPDATES
        return not late


def _changed(acting: Acting, given: list[TensorDictBase], told_by: list[Key]) -> list[Key]:
    """Its states that are others where they are trained from than where they were collected."""
    collected = acting.batches
    writes = {*declared(acting.policy, "out_keys"), *acting.writes}
    found = []
    for key in tensor_keys(collected[0]):
        if ("next", *key) not in writes or any(key not in tensor_keys(one) for one in given):
            continue
        true = dict(_pairs(collected, told_by, key))
        pairs = [(true.get(at), state) for at, state in _pairs(given, told_by, key)]
        known = [(one, state) for one, state in pairs if one is not None]
        other = sum(one != state for one, state in known)
        if other >= _LEAST and 2 * other >= sum(any(one) for one, _ in known):
            found.append(key)
    return found


def _tells(batches: list[TensorDictBase], told_by: list[Key], keys: list[Key]) -> bool:
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
        told = [_prints(batch, one) for one in told_by]
        yield from zip(map(b"".join, zip(*told, strict=True)), _prints(batch, key), strict=True)


def _not_zero(batch: TensorDictBase, key: Key) -> Tensor:
    """``[steps]`` of the batch, whatever its dimensions."""
    value: Tensor = batch.get(key)
    return value.reshape(batch.numel(), -1).any(1)


def _observed(
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
        if _stands(key, collected, given)
    ]


def _stands(key: Key, collected: list[TensorDictBase], given: list[TensorDictBase]) -> bool:
    """Whether what is trained on has nothing there but what was collected."""
    if any(key not in tensor_keys(one) for one in (*collected, *given)):
        return False
    have = {one for batch in collected for one in _prints(batch, key)}
    return len(have) > 1 and {one for batch in given for one in _prints(batch, key)} <= have


def _prints(batch: TensorDictBase, key: Key) -> list[bytes]:
    value: Tensor = batch.get(key)
    rows = value.detach().reshape(batch.numel(), -1).cpu().contiguous().numpy()
    return [row.tobytes() for row in rows]
