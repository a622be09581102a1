"""Whether lines that carry a state from one part of a rollout to the next begin a later rollout
with the one that its rows were left in, where the first begins with episodes."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, suppress
from types import FrameType
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from rnncheck.pipeline.subject.modes import called_in_mode
from rnncheck.watching.forms.states_beside import HandedState, begins_anew, first_of, states_handed
from rnncheck.watching.forms.structures import leaves_in
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.frames import their_frames
from rnncheck.watching.seams.lines import around_of
from rnncheck.watching.seams.patching import hear_calls
from rnncheck.watching.seen import Acting, Called

_MOST_SECONDS, _MOST_BATCHES = 20.0, 3  # that are waited for at most


def later_carried_seams(watching: Watching, scope: ExitStack) -> None:
    """Open them until ``scope`` ends; nothing is done before a later batch shows the need."""
    LaterCarried(watching, scope)


class LaterCarried:
    """Holds what the lines' variable has when a network is first called in them, behind a later
    batch, against what was collected at the rows' first steps."""

    def __init__(self, watching: Watching, scope: ExitStack) -> None:
        self._watching, self._scope = watching, scope
        self._loss: Called | None = None
        self._states = list[HandedState]()
        self._axis = self._batches = 0
        self._handle: RemovableHandle | None = None
        self._since: float | None = None
        watching.at_a_later_batch.append(self._collected)
        watching.waits.append(self._waits)

    def _collected(self, acting: Acting, _batch: TensorDictBase) -> None:
        if acting is not self._watching.seen.actor():
            return
        self._batches += 1
        if self._batches == 1:
            with suppress(Exception):  # what a script holds may be anything
                self._begin(acting)

    def _begin(self, acting: Acting) -> None:
        loss = self._watching.seen.loss()
        if loss is None or not loss.beside or _around(loss) is None:
            return
        self._states, self._axis = states_handed(loss, acting.batches)
        if self._states:
            self._loss = loss
            self._handle = hear_calls(self._scope, self._called)

    def _called(self, _module: nn.Module, _inputs: Any) -> None:
        if self._loss is None or not torch.is_grad_enabled():
            return
        with suppress(Exception):  # under vmap, or of a form that was not seen before
            for frame in their_frames(sys._getframe(1)):
                if frame.f_code is self._loss.own[0] and self._within(frame):
                    self._tell(frame)

    def _within(self, frame: FrameType) -> bool:
        function = _lines(self._loss)
        around = around_of(function)
        first = function.__code__.co_firstlineno
        return around is not None and first <= frame.f_lineno <= around.line

    def _tell(self, frame: FrameType) -> None:
        batch = frame.f_locals.get(_lines(self._loss).__code__.co_varnames[0])
        acting = self._watching.seen.actor()
        if acting is None or not isinstance(batch, TensorDictBase):
            return
        found, count = TensorDict({}), 0
        for name, path, key in self._states:
            given = dict(leaves_in(frame.f_locals[name]))[path]
            stored = first_of(batch, key, self._axis)
            if given.shape != stored.shape:
                return
            inside = ~torch.as_tensor(begins_anew(batch, self._axis)) & _is_not_zero(stored)
            count += int(inside.sum())
            for kind, value in (("given", given), ("collected", stored)):
                found.set((kind, *key), value.detach()[inside].clone())
        if count:
            acting.openings.append(found)
            self._end()

    def _end(self) -> None:
        self._loss = None
        if self._handle is not None:
            self._handle.remove()

    def _waits(self) -> bool:
        loss = self._watching.seen.loss()
        carries = loss is not None and bool(loss.beside) and _around(loss) is not None
        if not carries or self._batches > _MOST_BATCHES or (self._batches and self._loss is None):
            return False
        now = time.monotonic()
        self._since = self._since or now
        return now - self._since < _MOST_SECONDS


def _lines(loss: Called | None) -> Any:
    inner = None if loss is None else called_in_mode(loss.module)[1]
    return getattr(inner, "func", inner)


def _around(loss: Called) -> Any:
    return around_of(_lines(loss))


def _is_not_zero(stored: Tensor) -> Tensor:
    return (stored != 0).flatten(1).any(1).cpu()
