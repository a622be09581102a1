"""Whether rows of later batches are trained on with their start flags, where the first batches
cannot tell: no episode begins inside of their rows, and the flags at the rows' starts are gone."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.watching.forms.plain_policy import PlainEnv
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.patching import hear_calls
from rnncheck.watching.seams.told_steps import not_zero, telling_keys, tells, whole_prints
from rnncheck.watching.seen import Acting

_MOST_UPDATES, _MOST_SECONDS = 400, 60.0  # that are waited for at most: PPO takes some hundred
_MOST_BATCHES = 16  # that are waited for: an episode of a classic task spans fewer
_MOST_STARTS = 256
_FLAG: Key = ("is_init",)


def later_flag_seams(watching: Watching, scope: ExitStack) -> None:
    """Open them until ``scope`` ends; nothing is done before the first update shows the need."""
    LaterFlags(watching, scope)


class LaterFlags:
    """Looks for the starts inside of later rows in what is trained on."""

    def __init__(self, watching: Watching, scope: ExitStack) -> None:
        self._watching, self._scope = watching, scope
        self._acting: Acting | None = None  # where it is waited for
        self._told_by: list[Key] = []  # what tells one step from another
        self._starts = set[bytes]()  # what was observed where an episode began inside of a row
        self._batches = 0
        self._since: float | None = None
        watching.at_the_first_update.append(self._begin)
        watching.at_a_later_batch.append(self._collected)
        watching.waits.append(self._waits)

    def _begin(self) -> None:
        acting, loss = self._watching.seen.actor(), self._watching.seen.loss()
        if acting is None or loss is None or not acting.batches or acting.kind == "steps":
            return
        if isinstance(acting.make_env, PlainEnv):  # nothing tells of its later batches
            return
        with suppress(Exception):  # what a script holds may be anything
            if not _are_gone(acting.batches, loss.inputs):
                return
            self._told_by = telling_keys(acting, loss.inputs)
            if self._told_by and tells(acting.batches, self._told_by, [_FLAG]):
                self._acting = acting
                hear_calls(self._scope, self._trained)

    def _collected(self, acting: Acting, batch: TensorDictBase) -> None:
        self._batches += acting is self._acting
        if acting is self._acting and len(self._starts) < _MOST_STARTS:
            with suppress(Exception):  # a batch of another form than those before
                inside = _inside(batch)
                rows = batch.reshape(-1).select(*self._told_by)[inside]
                self._starts |= set(whole_prints(rows[:_MOST_STARTS], self._told_by))

    def _trained(self, _module: nn.Module, inputs: Any) -> None:
        """A module is about to run, maybe on a batch that is trained on."""
        acting, td = self._acting, inputs[0] if inputs else None
        if acting is None or not self._starts or not isinstance(td, TensorDictBase):
            return
        if td.batch_dims < 1 or not torch.is_grad_enabled():
            return
        with suppress(Exception):  # under vmap, or of a form that was not seen before
            if set(tensor_keys(td)) >= {_FLAG, *self._told_by}:
                self._tell(acting, td)

    def _tell(self, acting: Acting, td: TensorDictBase) -> None:
        told = whole_prints(td, self._told_by)
        starts = torch.tensor([at in self._starts for at in told])
        if bool(starts.any()):
            flags = not_zero(td, _FLAG).cpu()[starts]
            acting.openings.append(TensorDict({"flagged": flags}, [len(flags)]))
            self._acting = None

    def _waits(self) -> bool:
        if self._acting is None or (self._batches >= _MOST_BATCHES and not self._starts):
            return False
        now = time.monotonic()
        self._since = self._since or now
        late = now - self._since > _MOST_SECONDS or self._watching.seen.updates > _MOST_UPDATES
        return not late


def _are_gone(collected: list[TensorDictBase], given: list[TensorDictBase]) -> bool:
    """Whether rows began with flagged steps and none inside is flagged, and none is any more."""
    if not all(_FLAG in tensor_keys(one) for one in (*collected, *given)):
        return False
    some = any(bool(one.get(_FLAG).any()) for one in collected)
    inside = any(bool(_inside(one).any()) for one in collected)
    return some and not inside and not any(bool(one.get(_FLAG).any()) for one in given)


def _inside(batch: TensorDictBase) -> Tensor:
    """``[steps]``: an episode begins there, and not with the row."""
    flags = not_zero(batch, _FLAG).reshape(batch.shape).clone()
    flags[..., 0] = False
    return flags.reshape(-1)
