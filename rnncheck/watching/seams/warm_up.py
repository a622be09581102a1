"""Loops that begin with random actions, until there is enough to train on: who acts shows later."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rnncheck.watching.forms.held_as import MANY
from rnncheck.watching.forms.plain_calls import PlainStep
from rnncheck.watching.forms.step_ends import is_all_over
from rnncheck.watching.observer import Watching

# What is waited for a policy that acts, and then for its second episode: chosen. Where networks
# ran between the steps, and gave no action, one that comes later is hardly to be expected.
_MOST = {False: (400, 60.0), True: (40, 10.0)}  # updates and seconds
_MOST_OF_ITS_OWN = (2000, 60.0)  # the same once it has acted
_KEPT = 20_000  # random steps that are looked for in what is trained on


class RandomSteps:
    """Waits for steps that the policy took with the weights that are trained next."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self.heard = False  # something ran between the steps
        self.waits = False
        self._since: tuple[int, float] | None = None  # updates and seconds
        self._acts = False  # a step was the policy's

    def ahead_of(self, steps: Sequence[PlainStep]) -> int | None:
        """How many steps come ahead of those, which begin with an episode; 0 where the first steps
        were not random, or none came in time; None where they are still to come."""
        self.waits = False
        seen = [one.call.function is not None for one in steps]
        if all(seen):
            return 0
        first, updates = len(steps), self._watching.seen.updates
        while first and _is_the_policys(steps[first - 1], updates):
            first -= 1
        if any(seen) and not self._acts:
            self._acts, self._since = True, None
        begins = [n for n in range(first, len(steps) - MANY + 1) if n and is_all_over(steps[n - 1])]
        if any(steps[n - 1].call.function is not None for n in begins):  # behind one of its own
            return begins[0]
        if moving := self._while_trained(steps):
            return moving
        self.waits = self._may_come()
        return None if self.waits else next(iter(begins), 0)

    @staticmethod
    def _while_trained(steps: Sequence[PlainStep]) -> int | None:
        """Where an episode begins that the policy took while it was trained at every step or so,
        behind one of its own, and in which it went on with the next one; None where none does."""
        acts = len(steps)
        while acts and steps[acts - 1].call.function is not None:
            acts -= 1
        ends = [n + 1 for n in range(acts, len(steps)) if is_all_over(steps[n])]
        whole = [n for n in ends if len(steps) - n >= MANY]
        if len(whole) < 2 or steps[-1].updates - steps[whole[0]].updates < MANY:
            return None
        return whole[0]

    def _may_come(self) -> bool:
        updates, seconds = _MOST_OF_ITS_OWN if self._acts else _MOST[self.heard]
        now = self._watching.seen.updates, time.monotonic()
        self._since = self._since or now
        return now[0] - self._since[0] < updates and now[1] - self._since[1] < seconds


def latest_of(steps: Sequence[PlainStep]) -> list[PlainStep]:
    """Those of the random steps that are kept."""
    return list(steps[-_KEPT:])


def _is_the_policys(step: PlainStep, updates: int) -> bool:
    return step.call.function is not None and step.updates == updates
