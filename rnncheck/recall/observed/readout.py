"""Whether a fit tells what follows from an observation and action alone, and whether it needs an
earlier one as well: for observations of which none comes twice.

What is told on episodes that the fit has not seen needs no assumption: where nearly all is told,
nothing is left for the past. That more is told with an earlier observation shows that the past
counts only where the fit would have found it in the observation itself: it is said of a few numbers
alone, where the fit is as good with twice as many and no better with more steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rnncheck.numerics.held_out import StepRows, misordered, smooth_fit, unexplained
from rnncheck.numerics.paired import bootstrapped
from rnncheck.numerics.statistics import Floats
from rnncheck.printable import counted
from rnncheck.recall.session import PlayedEpisode
from rnncheck.results.memory import Estimated, Observed

_TOLD = 0.05  # unexplained: below it nearly all is told. Chosen
_UNTOLD = 0.2  # unexplained by the observation, where a past that counts is spoken of. Chosen
_LEARNT = 0.8  # of the error with half of the steps: below it more steps would tell more. Chosen
_EPISODES, _STEPS = 4, 64  # of either half, and of both: fewer say nothing. Chosen
_NUMBERS = 64  # the most of an observation and action: beyond it is a picture. Chosen
_FEW = 8  # numbers with which a past that counts is spoken of: chosen
_LAGS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_TESTED = 2000  # the most steps that are told: chosen


@dataclass(frozen=True)
class _Steps:
    """Steps of several episodes: ``now`` is observation and action, ``targets`` what followed."""

    now: Floats  # [steps, numbers]
    targets: Floats  # [steps, targets]
    episodes: StepRows  # [steps]
    at: StepRows  # the step within its episode

    def __getitem__(self, rows: StepRows) -> _Steps:
        return _Steps(self.now[rows], self.targets[rows], self.episodes[rows], self.at[rows])


@dataclass(frozen=True)
class _Target:
    """What follows a step, by name; an event is judged by its order."""

    name: str
    event: bool = False

    def left(self, told: Floats, truth: Floats, rows: StepRows) -> float:
        """What is left unexplained, 1 where nothing is told."""
        return (misordered if self.event else unexplained)(told, truth, rows)


@dataclass(frozen=True)
class _View:
    """What follows some of the steps: ``learn`` is the half that is fitted, ``test`` the other."""

    learn: _Steps
    test: _Steps
    targets: tuple[_Target, ...]
    plain: Floats  # what a fit without the past tells of ``test``
    left: tuple[Estimated, ...]  # of each target
    known: tuple[int, ...]  # the targets that move

    @classmethod
    def of(cls, steps: _Steps, targets: Sequence[_Target]) -> _View:
        learn, test = steps[_half(steps, 0)], steps[_half(steps, 1)]
        plain = smooth_fit(learn.now, learn.targets).predicted(test.now)
        left = tuple(_left(one, plain, test, i) for i, one in enumerate(targets))
        known = tuple(i for i, one in enumerate(left) if np.isfinite(one.value))
        return cls(learn, test, tuple(targets), plain, left, known)

    @property
    def worst(self) -> tuple[float, str]:
        """What is least told, and how little of it."""
        i = max(self.known, key=lambda i: self.left[i].value)
        return self.left[i].value, f"{_share(self.left[i])} of {self.targets[i].name}"


def read_out(episodes: Sequence[PlayedEpisode], seen: Sequence[Tensor], lags: int) -> Observed:
    """What a fit tells of the next observation, the reward and the end; ``seen`` is
    ``[steps, numbers]`` of each episode. ``whole`` is None where that decides nothing."""
    if len(episodes) < 2 * _EPISODES:
        return Observed(None, f"a fit needs {2 * _EPISODES} episodes, and has {len(episodes)}")
    steps, numbers = sum(one.length for one in episodes), seen[0].shape[1]
    if steps < _STEPS or numbers > _NUMBERS:
        return Observed(
            None,
            f"a fit takes {_STEPS} steps or more of up to {_NUMBERS} numbers, and has {steps} of"
            f" {numbers}",
        )
    views = [_View.of(*_outcomes(episodes, seen)), _View.of(*_changes(episodes, seen))]
    views = [one for one in views if one.known]
    if not views:
        return Observed(None, "neither reward nor observation changes over the episodes")
    _, least = max(one.worst for one in views)
    if all(one.left[i].high <= _TOLD for one in views for i in one.known):
        return Observed(
            True,
            f"a fit to half of the episodes leaves {least} in the other half unexplained, and no"
            " more of anything that follows an observation and action: these tell it without the"
            " past",
        )
    tried = [found for one in views if (found := _with_past(one, lags)) is not None]
    if not tried:
        return Observed(
            None,
            f"a fit leaves {least} unexplained by observation and action, and there are too few"
            " steps for one with earlier ones",
        )
    return max(tried, key=lambda one: (one[1].whole is not None, one[0]))[1]


def _outcomes(
    episodes: Sequence[PlayedEpisode], seen: Sequence[Tensor]
) -> tuple[_Steps, list[_Target]]:
    """The reward of each step, and whether the episode ends there, where its length tells of
    that."""
    ends = len({one.length for one in episodes}) > 1 and any(one.ended for one in episodes)
    found = []
    for one in episodes:
        over = torch.zeros(one.length, 1, dtype=torch.float64)
        over[-1] = float(one.ended)
        found.append(torch.cat([one.rewards.reshape(-1, 1), over], 1)[:, : 1 + ends])
    names = [_Target("the reward"), _Target("the end of an episode", event=True)]
    return _steps(episodes, seen, found), names[: 1 + ends]


def _changes(
    episodes: Sequence[PlayedEpisode], seen: Sequence[Tensor]
) -> tuple[_Steps, list[_Target]]:
    """By how much the next observation differs, of each step that has one."""
    names = [f"the change of number {i + 1} of the observation" for i in range(seen[0].shape[1])]
    return _steps(episodes, seen, [one.diff(dim=0) for one in seen]), list(map(_Target, names))


def _steps(
    episodes: Sequence[PlayedEpisode], seen: Sequence[Tensor], targets: Sequence[Tensor]
) -> _Steps:
    """As many steps of each episode as have targets."""
    now = [
        torch.cat([shown, one.actions], 1)[: len(target)]
        for one, shown, target in zip(episodes, seen, targets, strict=True)
    ]
    lengths = [len(one) for one in targets]
    return _Steps(
        torch.cat(now).nan_to_num().numpy(),
        torch.cat(list(targets)).nan_to_num().numpy(),
        np.repeat(np.arange(len(lengths)), lengths),
        np.concatenate([np.arange(one) for one in lengths]),
    )


def _half(steps: _Steps, which: int) -> StepRows:
    return np.flatnonzero(steps.episodes % 2 == which)[: _TESTED if which else None]


def _left(target: _Target, told: Floats, test: _Steps, i: int) -> Estimated:
    """What is left of a target, with its interval."""
    of: Callable[[StepRows], float] = partial(target.left, told[:, i], test.targets[:, i])
    low, high = bootstrapped(test.episodes, of)
    return Estimated(of(np.arange(len(told))), low, high)


def _with_past(view: _View, lags: int) -> tuple[float, Observed] | None:
    """With the earlier observation that tells most, as the first half has it, and how much is left
    without; None where there are too few steps."""
    learn, test = view.learn, view.test
    usual = [i for i in view.known if not view.targets[i].event]
    longest = min(lags, int(learn.at.max(initial=0)), int(test.at.max(initial=0)))
    lengths = [k for k in _LAGS if k <= longest and len(_behind(learn, k)) >= _STEPS // 2]
    tried = {k: smooth_fit(*_before(learn, k)) for k in lengths if len(_behind(test, k))}
    if not tried or not usual:
        return None
    alone = smooth_fit(learn.now, learn.targets).left_out

    def gain(pair: tuple[int, int]) -> float:
        return float(tried[pair[0]].left_out[pair[1]] / max(alone[pair[1]], 1e-12))

    lag, i = min(((k, i) for k in tried for i in usual), key=gain)
    behind = _behind(test, lag)
    later, told = test[behind], tried[lag].predicted(_before(test, lag)[0])
    left, after = (_left(view.targets[i], one, later, i) for one in (view.plain[behind], told))
    figures = (
        f"a fit leaves {_share(left)} of {view.targets[i].name} unexplained by observation and"
        f" action, and {_share(after)} with those {counted(lag, 'step')} before"
    )
    counts = after.high <= _TOLD and left.low >= _UNTOLD and learn.now.shape[1] <= _FEW
    whole = False if counts and _settled(learn, later, left, i) else None
    return left.value, Observed(whole, figures)


def _settled(learn: _Steps, test: _Steps, left: Estimated, i: int) -> bool:
    """With half of what it was fitted on it would have left about as much."""
    told = smooth_fit(learn.now, learn.targets, share=0.5).predicted(test.now)
    before = unexplained(told[:, i], test.targets[:, i], np.arange(len(told)))
    return left.value >= _LEARNT * before


def _behind(steps: _Steps, lag: int) -> StepRows:
    return np.flatnonzero(steps.at >= lag)


def _before(steps: _Steps, lag: int) -> tuple[Floats, Floats]:
    """Features with those of ``lag`` steps before, and targets."""
    rows = _behind(steps, lag)
    return np.hstack([steps.now[rows], steps.now[rows - lag]]), steps.targets[rows]


def _share(found: Estimated) -> str:
    """What is told worse than by the mean is not told at all: 100 %."""
    value, low, high = (min(1.0, one) for one in (found.value, found.low, found.high))
    return f"{value:.1%} [{low:.1%}, {high:.1%}]"
