"""How rows of later batches are trained on, where the first batches cannot tell: all of their rows
begin with episodes, so that a script which puts zeros there changes nothing, or it has changed the
states behind that, or laid the rows end to end."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torchrl.objectives import LossModule

from rnncheck.pipeline.keys import Key, declared, tensor_keys
from rnncheck.watching.forms.plain_policy import PlainEnv
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.patching import hear_calls
from rnncheck.watching.seams.told_steps import (
    begin_with_zeros,
    changed_states,
    joined,
    lays_rows_end_to_end,
    not_zero,
    said_keys,
    stands,
    states_of,
    telling_keys,
    tells,
    whole_prints,
)
from rnncheck.watching.seen import Acting

_MOST_BATCHES = 3  # that are waited for: where none of them begins inside of an episode, none does
_MOST_UPDATES, _MOST_SECONDS = 400, 60.0  # that are waited for at most: PPO takes some hundred
_SOON = 10.0  # seconds at most where nothing else says that it is of use
_ON_IT = 2  # updates on a batch in which rows of it are seen then: chosen, each may take a part
_MOST_OPENINGS = 256
_FLAG = "is_init"


def later_seams(watching: Watching, scope: ExitStack) -> None:
    """Open them until ``scope`` ends; nothing is done before the first update shows the need."""
    LaterOpenings(watching, scope)


class LaterOpenings:
    """Holds the states that a later batch begins with against those that it is trained from, and
    looks for its rows behind others, without a start flag."""

    def __init__(self, watching: Watching, scope: ExitStack) -> None:
        self._watching, self._scope = watching, scope
        self._acting: Acting | None = None  # where it is waited for
        self._steps = False  # by itself, one by one
        self._keys: list[Key] = []  # of states
        self._end_to_end = False  # rows lie behind others
        self._told_by: list[Key] = []  # what tells one step from another
        self._open = dict[bytes, TensorDictBase]()  # states by what was observed there
        self._batches, self._update = 0, -1  # the latest that a window began behind
        self._since: float | None = None
        self._longest = _MOST_SECONDS
        self._shown = 0  # behind this update the rows of that batch were trained on
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
            self._told_by = telling_keys(acting, loss.inputs)
            self._keys = self._needed(acting, loss.inputs) if self._told_by else []
            if self._keys and not tells(acting.batches, self._told_by, self._keys):
                self._told_by += said_keys(acting, loss.inputs)
        if self._keys and tells(acting.batches, self._told_by, self._keys):
            self._acting, self._steps = acting, acting.kind == "steps"
            hear_calls(self._scope, self._trained)

    def _needed(self, acting: Acting, given: list[TensorDictBase]) -> list[Key]:
        """The states that are of use."""
        states = states_of(acting)
        kept = [key for key in states if stands(key, acting.batches, given)]
        if kept and lays_rows_end_to_end(acting.batches, given, [*self._told_by, *kept]):
            self._end_to_end, self._told_by = True, [*self._told_by, *kept]
            return states
        changed = changed_states(acting, given, self._told_by)
        if not changed and begin_with_zeros(acting.batches, given, self._told_by, kept):
            self._longest = _SOON
            return kept
        return changed

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
        moved = torch.stack([not_zero(rows, key) for key in self._keys]).any(0)
        if not bool(moved.any()):
            return
        chosen = rows[moved][:_MOST_OPENINGS]
        told = whole_prints(chosen, self._told_by)
        for at, row in zip(told, chosen.unbind(0), strict=True):
            self._open[at] = row.select(*self._keys)
        self._shown = self._shown or self._watching.seen.updates + _ON_IT

    def _trained(self, module: nn.Module, inputs: Any) -> None:
        """A module is about to run, maybe on a batch that is trained on."""
        acting = self._acting
        td = inputs[0] if inputs else None
        if acting is None or not self._open or not isinstance(td, TensorDictBase):
            return
        if td.batch_dims < 1 or not torch.is_grad_enabled():
            return
        with suppress(Exception):  # under vmap, or of a form that was not seen before
            found = self._unmarked(module, td) if self._end_to_end else self._given(td)
            if found:
                acting.openings.append(torch.stack(found))
                self._acting = None

    def _given(self, td: TensorDictBase) -> list[TensorDictBase]:
        keys = set(tensor_keys(td))
        if not keys >= {*self._keys, *self._told_by}:
            return []
        rows, opens = td.reshape(-1).select(*self._keys, *self._told_by).detach(), _opens(td)
        found = []
        for number, at in enumerate(whole_prints(rows, self._told_by)):
            collected = self._open.get(at)
            if collected is not None and opens[number]:
                given = rows[number].select(*self._keys).clone()
                found.append(TensorDict({"given": given, "collected": collected}))
        return found

    def _unmarked(self, module: nn.Module, td: TensorDictBase) -> list[TensorDictBase]:
        """Rows that begin inside of an episode and lie behind other steps with no start flag, where
        a module that reads a state runs over them: a loss may part them first."""
        reads = set(declared(module, "in_keys")) & {*self._keys}
        if isinstance(module, LossModule) or not reads:
            return []
        starts = _marked(td).tolist()
        behind = [one for one in joined(td, self._told_by) if one[2] in self._open]
        if behind:  # whether marked or not, they tell: no more are waited for
            self._acting = None
        return [
            TensorDict({"collected": self._open[at], "unmarked": torch.tensor(True)})
            for number, _, at in behind
            if not starts[number]
        ]

    def _waits(self) -> bool:
        if self._acting is None or (self._batches >= _MOST_BATCHES and not self._open):
            return False
        now = time.monotonic()
        self._since = self._since or now
        updates, soon = self._watching.seen.updates, self._longest == _SOON
        late = now - self._since > self._longest or updates > _MOST_UPDATES
        return not late and not (soon and 0 < self._shown <= updates)


def _marked(td: TensorDictBase) -> Tensor:
    """Of all its steps in their order: where a flag marks a start."""
    flags = [key for key in tensor_keys(td) if key[-1] == _FLAG and key[0] != "next"]
    none = torch.zeros(td.numel(), dtype=torch.bool)
    return torch.stack([none, *(not_zero(td, key).cpu() for key in flags)]).any(0)


def _opens(td: TensorDictBase) -> list[bool]:
    """Of all its steps: where a pass may begin with the state that lies there. Inside of a row that
    is what is marked alone: the step that a loss puts behind a row is the first of the next one."""
    if td.batch_dims < 2:
        return [True] * td.numel()
    first = torch.zeros(td.batch_size, dtype=torch.bool)
    first[..., 0] = True
    opening: list[bool] = (first.flatten() | _marked(td)).tolist()
    return opening
