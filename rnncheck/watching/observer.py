"""The watch over one script: what passes the open seams is noted.

Nothing is drawn, nothing is computed anew and nothing is written into what passes: data is cloned
and handed on. Whatever runs in a fork of the process is let through unseen.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any
from weakref import WeakSet

from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.optim import Optimizer
from torchrl.envs import EnvBase
from torchrl.envs.utils import exploration_type
from torchrl.modules.tensordict_module.rnn import recurrent_mode

from rnncheck.watching.seen import Acting, Called, CalledOn, Modes, Sightings
from rnncheck.watching.weights import (
    as_acted_with,
    buffers_taken,
    have_changed,
    is_equal,
    is_stepped,
    parameters_taken,
    taken,
)

# Optimiser steps and seconds of training of which nothing is recognised; chosen. Where a script
# trains on stored data for longer ahead of acting, `--keep-going` waits for it.
_MOST_LOST, _LONGEST_LOST = 300, 60.0
_MOST_LAGGED, _LONGEST_LAG = 64, 10.0  # updates and seconds that weights are waited for; chosen
_LATEST = 16  # calls that are remembered: chosen, between two steps a policy has few


class Enough(BaseException):
    """The script has done as many updates as were asked for; no ``except Exception`` of a user's
    catches it."""


class _Inside(threading.local):
    """How deep in libraries' calls the thread is: entered with each."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


class _Forks:
    """How often this process was forked off another that imports this. To ask the system for its
    id takes longer than all else that is asked with every call of a network."""

    count = 0

    @classmethod
    def forked(cls) -> None:
        """This is the new one."""
        cls.count += 1


os.register_at_fork(after_in_child=_Forks.forked)


class Watching:
    """Notes what a script does. ``updates`` optimiser steps are enough; with ``ends`` the script is
    then ended, from inside the optimiser's step. ``describes``: how everything was made is noted as
    well."""

    def __init__(self, updates: int, *, ends: bool, describes: bool = False) -> None:
        self.seen, self.describes = Sightings(), describes
        self.enough = False
        # Of modules on a tensordict, by the script.
        self.calls: deque[CalledOn] = deque(maxlen=_LATEST)
        self.at_a_step: list[Callable[[], None]] = []  # of an env, by the script itself
        self.at_a_backward: list[Callable[[FrameType, Any], None]] = []
        self.optimisers = WeakSet[Optimizer]()  # that the script made
        self.at_a_batch: list[Callable[[FrameType], None]] = []  # that weights which act are given
        # A loss whose caller reduces what it gives is about to be called.
        self.at_an_unreduced_loss: list[Callable[[FrameType, Called, TensorDictBase], None]] = []
        self.at_the_first_update: list[Callable[[], None]] = []
        self.at_an_update: list[Callable[[], None]] = []  # that is about to be made, of any network
        self.at_comparing: list[Callable[[], None]] = []  # weights with what they were
        self.at_the_end: list[Callable[[], None]] = []  # done while the script is still alive
        self.at_a_rollout: list[Callable[[EnvBase], None]] = []  # by the script itself
        # Who collected what behind the first update.
        self.at_a_later_batch: list[Callable[[Acting, TensorDictBase], None]] = []
        self.before_modules: list[Callable[[nn.Module, Any], None]] = []  # that are about to run
        self.after_modules: list[Callable[..., None]] = []
        self.at_moving_on: list[Callable[[], None]] = []  # no call of a module is of use any more
        self.waits: list[Callable[[], bool]] = [self._lags]  # for more than these updates
        self.draws = False  # a batch, out of a buffer, that is of use
        # The latest that a buffer was given, and that one gave out of a memory, older ones too.
        self.stored: TensorDictBase | None = None
        self.drawn: TensorDictBase | None = None
        self.untrained = False  # who acts has weights to train, and no step was taken on them yet
        self._moved = set[int]()  # weights that steps were taken on, by id
        self._lags_since: float | None = None
        self._lost_since: float | None = None
        self.when_settled: Callable[[], None] = lambda: None  # closes what it watches through
        self._updates, self._ends = updates, ends
        self._acts_otherwise = False  # from some update on, of a loss that was not told
        self._forks = _Forks.count
        self._inside = _Inside()

    @property
    def looks(self) -> bool:
        """Whether what happens now is the script's own doing, and still wanted."""
        return not self.enough and not self._inside.depth and self._forks == _Forks.count

    @property
    def is_inside(self) -> bool:
        """Whether a library's call is under way."""
        return bool(self._inside.depth)

    def stepped(self) -> None:
        """The script itself has stepped an env."""
        self.seen.env_steps += 1
        for forget in self.at_a_step:
            forget()

    def inside(self) -> AbstractContextManager[None]:
        """What is called here is called by a library, not by the script."""
        return self._inside

    @contextmanager
    def drawing(self, looks: bool) -> Iterator[None]:
        """A buffer of the script's draws a batch here, with the transforms that it has; where it
        ``looks``, these are of use."""
        before, self.draws = self.draws, self.draws or looks  # a buffer may call that of its class
        try:
            yield
        finally:
            self.draws = before

    def collected(self) -> None:
        """A batch was collected that is about to be noted. Where its weights are no longer those of
        the batches before it, without an update, as when they were read from a learner or a file,
        it is the first one that is judged."""
        seen = self.seen
        known = {id(one) for one, _ in seen.weights.values()}
        policies = [one.policy for one in seen.acting if isinstance(one.policy, nn.Module)]
        acting = {id(one) for policy in policies for one in policy.parameters()}
        seen.buffers = seen.buffers if seen.frozen else buffers_taken(policies)
        if have_changed(seen.weights):
            for one in seen.acting:
                one.batches.clear()
        elif acting <= known:
            return
        seen.weights = parameters_taken(policies)

    def before_update(self, optimizer: Optimizer) -> None:
        """The weights are still those that collected and trained on everything so far."""
        if self.looks:
            self.seen.stepped |= {id(weight) for weight in self._stepped(optimizer)}
            trained = (one for one in self._stepped(optimizer) if one.requires_grad)
            self.seen.trained |= {id(one): one for one in trained}
            self._moved |= {id(one) for one in _with_gradient(optimizer)}
            self.seen.learning |= self._newly_learning(optimizer)
            lent = {id(one) for one in self._lenders(optimizer)}
            self.seen.stepped, self._moved = self.seen.stepped | lent, self._moved | lent
            self.untrained = self._is_untrained()
            for note in self.at_an_update:
                note()
        if not self.seen.frozen and self.looks:
            self._acts_otherwise = self._acts_otherwise or self._of_who_acts(optimizer)
        if not self.seen.frozen and self.looks and self._trains():
            seen = self.seen
            seen.frozen = True
            held = taken(seen.modules(), self._stepped(optimizer))
            seen.weights = as_acted_with(held, seen.buffers | seen.still)
            seen.buffers_in = dict(seen.still_in)
            for step in self.at_the_first_update:
                step()

    def after_update(self) -> None:
        """Count it; end the script where it was the last one."""
        if not self.seen.steps:
            self.seen.processes = len(multiprocessing.active_children())
        self.seen.steps += not self.enough
        if self._forks != _Forks.count:
            return
        if not self._trains():
            if self._is_lost():
                self.settle()
                raise Enough
            return
        if not self.enough:
            self.seen.updates += 1
            if self.seen.updates < self._updates or any(waits() for waits in self.waits):
                return
            self.settle()
        if self._ends:  # a script that swallows it hears it again at its next update
            raise Enough

    def move_on(self, acting: Acting | None = None, batch: TensorDictBase | None = None) -> None:
        """Something is collected that belongs to other weights than what is judged."""
        if acting is not None and batch is not None and self.looks:
            for note in self.at_a_later_batch:
                note(acting, batch)
        self.seen.moved_on = True
        if not self.untrained:
            closing, self.at_moving_on = self.at_moving_on, []
            for close in closing:
                close()

    def settle(self) -> None:
        """Nothing more is noted; what must be done while the script is alive is done now."""
        if self.enough:
            return
        self.enough = True
        self.compare_weights()
        self.seen.given.clear()  # they hold their graph
        self.stored = self.drawn = None
        for step in self.at_the_end if self._ends else ():  # one that goes on is not disturbed
            step()
        self.when_settled()

    def compare_weights(self) -> None:
        """Whether what acts was ever given anything of what is trained: told while the weights are
        still those that the script has."""
        acting = self.seen.actor()
        if acting is not None:
            acting.apart = self._apart(acting)
        for compare in self.at_comparing:
            compare()

    def _apart(self, acting: Acting) -> bool:
        policy = acting.policy
        own = {id(one) for one in policy.parameters()} if isinstance(policy, nn.Module) else set()
        before = {key: one for key, one in self.seen.weights.items() if key in own}
        stepped = self.seen.stepped
        return bool(before) and bool(stepped) and not own & stepped and not have_changed(before)

    def _lags(self) -> bool:
        """An actor that is no part of what is trained is given its weights now and then, and one
        that is may be trained at some of the updates alone."""
        acting = self.seen.actor()
        if acting is None or not (self.untrained or self._apart(acting)):
            return False
        now = time.monotonic()
        self._lags_since = self._lags_since or now
        return now - self._lags_since <= _LONGEST_LAG and self.seen.updates <= _MOST_LAGGED

    def _lenders(self, optimizer: Optimizer) -> Iterator[Tensor]:
        """Weights that act whose gradients the optimiser has been given, as those of a worker are
        that learns by way of a shared copy of it."""
        stepped = _with_gradient(optimizer)
        known = self.seen.stepped
        policies = [one.policy for one in self.seen.acting if isinstance(one.policy, nn.Module)]
        for one in (p for policy in policies for p in policy.parameters()):
            grad = one.grad
            if id(one) in known or grad is None or not bool((grad != 0).any()):
                continue
            if any(is_equal(grad, other.grad) for other in stepped if other.grad is not None):
                yield one

    def _newly_learning(self, optimizer: Optimizer) -> set[int]:
        """Weights with a gradient that is not zero, of those that had none before."""
        asked = (one for one in _with_gradient(optimizer) if id(one) not in self.seen.learning)
        return {id(one) for one in asked if one.grad is not None and bool((one.grad != 0).any())}

    def _is_untrained(self) -> bool:
        """Whether an optimiser has weights that act, and has not trained any so far."""
        policies = [one.policy for one in self.seen.acting if isinstance(one.policy, nn.Module)]
        own = {id(p) for one in policies for p in one.parameters() if p.requires_grad}
        return bool(own & self.seen.stepped) and not own & self._moved

    def _is_lost(self) -> bool:
        """Whether a memory is trained again and again, and nothing of what acts is recognised."""
        seen, now = self.seen, time.monotonic()
        if not self._ends or not (seen.layers or seen.recurrent):
            return False
        self._lost_since = self._lost_since or now
        return seen.steps >= _MOST_LOST and now - self._lost_since > _LONGEST_LOST

    def _trains(self) -> bool:
        """Whether anything was trained on so far."""
        stepped = self.seen.env_steps and self.seen.backwards  # the loss of what acting gave
        return bool(self.seen.losses or self.seen.estimators or stepped or self._acts_otherwise)

    def _stepped(self, optimizer: Optimizer) -> Iterator[Tensor]:
        """What this optimiser and the script's others train."""
        for one in {optimizer, *self.optimisers}:
            for group in one.param_groups:
                yield from group["params"]

    def _of_who_acts(self, optimizer: Optimizer) -> bool:
        """Whether it changes weights that have acted, or a copy of them that these are synchronised
        with, whatever the loss is."""
        policies = [one.policy for one in self.seen.acting if isinstance(one.policy, nn.Module)]
        stepped = _with_gradient(optimizer)
        return any(is_stepped(list(one.parameters()), stepped) for one in policies)


def _with_gradient(optimizer: Optimizer) -> list[Tensor]:
    groups = (group["params"] for group in optimizer.param_groups)
    return [p for group in groups for p in group if p.grad is not None]


def modes_now() -> Modes:
    """What the code that runs now has set."""
    return Modes(recurrent_mode(), exploration_type())
