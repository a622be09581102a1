"""The states that rows of later batches are trained from, where the first batches cannot tell: all
of their rows begin with episodes, and the script has set every state to zero."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from rnncheck.pipeline.keys import Key, declared, tensor_keys
from rnncheck.watching.observer import Watching
from rnncheck.watching.seen import Acting

_LEAST = 8  # states that must be zero before it is no chance
_MOST_BATCHES = 3  # that are waited for: where none of them begins inside of an episode, none does
_MOST_UPDATES, _MOST_SECONDS = 400, 60.0  # that are waited for at most: PPO takes some hundred
_MOST_OPENINGS = 256


def later_seams(watching: Watching, scope: ExitStack) -> None:
    """Open them until ``scope`` ends; nothing is done before the first update shows the need."""
    LaterOpenings(watching, scope)


class LaterOpenings:
    """Holds the states that a later batch begins with against those that it is trained from."""

    def __init__(self, watching: Watching, scope: ExitStack) -> None:
        self._watching, self._scope = watching, scope
        self._acting: Acting | None = None  # where it is waited for
        self._keys: list[Key] = []  # of states
        self._told_by: list[Key] = []  # what tells one step from another
        self._open = dict[bytes, TensorDictBase]()  # states by what was observed there
        self._batches = 0
        self._since: float | None = None
        watching.at_the_first_update.append(self._begin)
        watching.at_a_later_batch.append(self._collected)
        watching.waits.append(self._waits)

    def _begin(self) -> None:
        acting, loss = self._watching.seen.actor(), self._watching.seen.loss()
        if acting is None or loss is None or not acting.batches:
            return
        with suppress(Exception):  # what a script holds may be anything
            self._keys = _zeroed(acting, loss.inputs)
            self._told_by = _observed(acting.batches, loss.inputs, self._keys)
        if self._keys and self._told_by:
            self._acting = acting
            handle = register_module_forward_pre_hook(self._trained)
            self._scope.callback(handle.remove)

    def _collected(self, batch: TensorDictBase) -> None:
        """A batch with the time last, or one step of each env."""
        if self._acting is None or self._batches >= _MOST_BATCHES:
            return
        steps = self._acting.kind == "steps"
        self._batches += 0 if steps and self._open else 1
        first = batch if steps else batch.reshape(-1, batch.shape[-1])[:, 0]
        if steps and self._open:
            return
        keys = set(tensor_keys(first))
        if not keys >= {*self._keys, *self._told_by}:
            return
        rows = first.reshape(-1).select(*self._keys, *self._told_by).detach().clone()
        moved = torch.stack([_not_zero(rows, key) for key in self._keys]).any(0)
        for row in rows[moved][:_MOST_OPENINGS].unbind(0):
            self._open[_printed(row, self._told_by)] = row.select(*self._keys)

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
        for row in rows.unbind(0):
            collected = self._open.get(_printed(row, self._told_by))
            if collected is not None:
                given = row.select(*self._keys).clone()
                found.append(TensorDict({"given": given, "collected": collected}))
        return found

    def _waits(self) -> bool:
        if self._acting is None or (self._batches >= _MOST_BATCHES and not self._open):
            return False
        now = time.monotonic()
        self._since = self._since or now
        late = now - self._since > _MOST_SECONDS or self._watching.seen.updates > _MOST_UPDATES
        return not late


def _zeroed(acting: Acting, given: list[TensorDictBase]) -> list[Key]:
    """Its states that are zero throughout in what is trained on, and are not where they were
    collected."""
    collected = acting.batches[0]
    writes = {*declared(acting.policy, "out_keys"), *acting.writes}
    found = []
    for key in tensor_keys(collected):
        if ("next", *key) not in writes or any(key not in tensor_keys(one) for one in given):
            continue
        here = sum(int(_not_zero(one, key).sum()) for one in acting.batches)
        if here >= _LEAST and not any(bool(_not_zero(one, key).any()) for one in given):
            found.append(key)
    return found


def _not_zero(batch: TensorDictBase, key: Key) -> Tensor:
    """``[steps]`` of the batch, whatever its dimensions."""
    value: Tensor = batch.get(key)
    return value.reshape(batch.numel(), -1).any(1)


def _observed(
    collected: list[TensorDictBase], given: list[TensorDictBase], states: list[Key]
) -> list[Key]:
    """What the env showed of a step, and stands in what is trained on as it was collected."""
    found, shown = [], set(tensor_keys(collected[0]))
    for key in tensor_keys(given[0]):
        numbers = given[0].get(key).is_floating_point() and ("next", *key) in shown
        if key in states or not numbers:
            continue
        if all(key in tensor_keys(one) for one in (*collected, *given)):
            have = {one for batch in collected for one in _prints(batch, key)}
            if len(have) > 1 and {one for batch in given for one in _prints(batch, key)} <= have:
                found.append(key)
    return found


def _prints(batch: TensorDictBase, key: Key) -> list[bytes]:
    return [_printed(row, [key]) for row in batch.select(key).detach().reshape(-1).unbind(0)]


def _printed(row: TensorDictBase, keys: list[Key]) -> bytes:
    return b"".join(row.get(key).cpu().contiguous().numpy().tobytes() for key in keys)
