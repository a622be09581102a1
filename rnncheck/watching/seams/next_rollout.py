"""The rollout behind the first one of a plain loop. It begins with the state that was carried over,
which the first one cannot show: there every state is the first."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Protocol

import numpy as np

from rnncheck.watching.forms.held_as import MANY
from rnncheck.watching.forms.plain_calls import PlainCall, PlainStep
from rnncheck.watching.forms.plain_run import PlainRun
from rnncheck.watching.forms.step_ends import is_one_episode, is_over
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.stood import StoodAt
from rnncheck.watching.seen import Sightings
from rnncheck.watching.weights import as_acted_with, taken

# What is waited for it at most, behind the updates that were asked for: PPO takes some hundred
# updates on a rollout. A script that never collects again goes on for no longer.
_MOST_UPDATES, _MOST_SECONDS = 400, 60.0
LONGEST_ROLLOUT = 20_000  # of one rollout: chosen, that of Atari has some thousand
_MOST_ASKED = 8  # rollouts behind the first in which an episode may end: chosen
_MOST_BEGUN = 64  # the same where none began behind another: short ones, of long episodes
_SHORT = 128  # steps: one that an end cut short says little of the length of the next. Chosen
_BEGINS, _ENDS, _CUT = 4, 2, 1  # an episode begins behind another; one ends; by a time limit
_ALL = _BEGINS | _ENDS
_MOST_WHOLE = 8  # rollouts behind the first that each begin with an episode: chosen
_SOON = 4  # rollouts in which one that nothing ends reaches the time limit: chosen
_ON_IT = 2  # updates on it that are seen: the first may be on another minibatch than the second


class HasSteps(Protocol):
    """What is noted of an env."""

    steps: list[PlainStep]


class NextRollout:
    """Judged in the place of the first one where it has as many steps, or both are one episode."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self.begun = False
        self._over = False
        self._longer = False  # than the first, of which as many steps are noted
        self._length = 0  # of the first
        self._most = 0  # of the second that is noted
        self._asked = 0
        self._tells = 0  # of the one that is judged
        self._enough = _ALL  # nothing more is asked for
        self._latest: list[PlainStep] = []
        self._told_at = 0  # updates
        self._inside = False  # the one that is judged begins inside of an episode
        self._opening: PlainRun | None = None  # another one that does, until it is trained on
        self._waiting_since: float | None = None
        watching.waits.append(self._waits)

    def behind(self, steps: Sequence[PlainStep]) -> None:
        """The first one is told."""
        self._length = len(steps)
        self._enough = _ALL | _CUT if _is_cut_soon(steps) else _ALL
        self._most = LONGEST_ROLLOUT if is_one_episode(steps) else max(self._length, _SHORT)

    @property
    def wanted(self) -> bool:
        """Whether who acts now is of use."""
        return bool(self._length and not self._over)

    def begins(self, shown: Iterable[HasSteps]) -> bool:
        """Whether the step that comes now belongs to it."""
        if not self.wanted:
            return False
        envs = list(shown)
        if not self.begun:
            self.begun = True
            for one in envs:
                one.steps = []
        self._over = self._longer = max(len(one.steps) for one in envs) >= self._most
        return not self._over

    def ended(
        self,
        first: PlainRun,
        steps: list[PlainStep],
        stack: list[FrameType],
        stood: StoodAt,
    ) -> PlainRun:
        """``backward`` is about to be called: which of the two is judged. Where no episode ended or
        none began anew in that, the next one is asked as well."""
        self._asked += 1
        before, self._latest = self._latest or first.steps, steps
        run = self._better(first, steps, before, stack, stood)
        self._inside |= run is not first and _goes_on(before, steps)
        if run is first and not self._inside and _goes_on(before, steps):
            self._opens(first, steps, before, stack, stood)
        most = _MOST_BEGUN if run.puts_back_unseen else _MOST_ASKED
        opens = self._inside or self._asked >= _MOST_WHOLE
        self._over = self._asked >= most or (self._tells >= self._enough and opens)
        self.begun = self._longer = False
        return run

    def _opens(
        self,
        first: PlainRun,
        steps: list[PlainStep],
        before: list[PlainStep],
        stack: list[FrameType],
        stood: StoodAt,
    ) -> None:
        """Whether what is trained on begins with the state that was carried over: one that begins
        with an episode does not tell."""
        run = _run_behind(first, steps, before)
        if run.acted():
            run.trained(stack, stood)
            first.goes_on_with(run)
            self._opening = run

    def passed(self, judged: PlainRun, call: PlainCall) -> None:
        """A call on a training batch: tell the run that is ``judged`` what it begins with."""
        states = None if self._opening is None else self._opening.opening(call)
        if states is not None:
            judged.opens_later_with(states)
            self._inside, self._opening = True, None
            self._over = self._over or self._tells >= self._enough

    def _better(
        self,
        first: PlainRun,
        steps: list[PlainStep],
        before: list[PlainStep],
        stack: list[FrameType],
        stood: StoodAt,
    ) -> PlainRun:
        first.beside(steps)
        if self._asked == 1:
            self._tells = _telling(first.steps)
        whole = all(is_one_episode(one) for one in (first.steps, steps))
        alike = self._asked == 1 and (len(steps) == self._length or whole)
        telling = _telling(steps, before)
        fewest = min(MANY, len(first.steps))  # where all are short, the first was as well
        if self._longer or len(steps) < fewest or not (alike or telling > self._tells):
            return first
        seen = self._watching.seen
        run = _run_behind(first, steps, before)
        if run.acted():
            run.trained(stack, stood)
            run.beside(first.steps)
        if not run.instead_of(first, seen):
            return first
        seen.weights = as_acted_with(taken(seen.modules()), seen.still)
        seen.buffers_in = dict(seen.still_in)
        for acting in seen.acting:
            acting.counted = sorted(seen.counting)
        self._told_at, self._tells = seen.updates, telling
        return run

    def _waits(self) -> bool:
        if not self._length:
            return False
        if self._over:
            return bool(self._told_at) and self._watching.seen.updates < self._told_at + _ON_IT
        now = time.monotonic()
        self._waiting_since = self._waiting_since or now
        late = now - self._waiting_since > _MOST_SECONDS
        self._over = late or self._watching.seen.updates > _MOST_UPDATES
        return not self._over


def _run_behind(first: PlainRun, steps: list[PlainStep], before: list[PlainStep]) -> PlainRun:
    """Of a later rollout, with sightings of its own."""
    run = PlainRun(steps, first.place, Sightings(), before)
    run.knows_what(first)
    return run


def _goes_on(before: Sequence[PlainStep], steps: Sequence[PlainStep]) -> bool:
    """Whether some env goes on with an episode of the rollout ``before``."""
    last = before[-1] if before else None
    if last is None or len(steps) < 2 or last.rows != steps[0].rows:
        return False
    return not bool(np.all(np.asarray(last.terminated) | np.asarray(last.truncated)))


def _telling(steps: Sequence[PlainStep], before: Sequence[PlainStep] = ()) -> int:
    """The most where an episode begins behind another, which shows whether the loop puts its state
    back there; more where one ends in it, and where a time limit ends one that could go on."""
    inside, cut = False, False
    for one in steps[:-1]:
        over, terminated = np.asarray(one.truncated), np.asarray(one.terminated)
        inside = inside or bool(np.any(terminated | over))
        cut = cut or bool(np.any(over & ~terminated))
    begins = inside or any(map(is_over, before[-1:]))
    return _BEGINS * begins + _ENDS * (inside or is_over(steps[-1])) + _CUT * cut


def _is_cut_soon(steps: Sequence[PlainStep]) -> bool:
    """Whether its env has a time limit that this rollout is too short for, and one of the next ones
    reaches."""
    env = steps[0].env
    parts = getattr(env, "envs", None)  # a vector env's own spec may tell of none
    specs = (
        getattr(one, "spec", None) for one in [env, *(parts if isinstance(parts, list) else ())]
    )
    limits = (getattr(one, "max_episode_steps", None) for one in specs)
    least, most = len(steps), _SOON * len(steps)
    return any(isinstance(one, int) and least < one <= most for one in limits)
