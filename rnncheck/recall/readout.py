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

from rnncheck.numerics.held_out import Rows, fitted, misordered, unexplained
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
    episodes: Rows  # [steps]
    at: Rows  # the step within its episode

    def __getitem__(self, rows: Rows) -> _Steps:
        return _Steps(self.now[rows], self.targets[rows], self.episodes[rows], self.at[rows])


@dataclass(frozen=True)
class _Target:
    """What follows a step, by name; an event is judged by its order."""

    name: str
    event: bool = False

    def left(self, told: Floats, truth: Floats, rows: Rows) -> float:
        """What is left unexplained, 1 where nothing is told."""
        return (misordered if self.event else unexplained)(told, truth, rows)


def read_out(episodes: Sequence[PlayedEpisode], seen: Sequence[Tensor], lags: int) -> Observed:
    """What a fit tells of the next observation, the reward and the end; ``seen`` is
    ``[steps, numbers]`` of each episode. ``whole`` is None where that decides nothing."""
    steps, targets = _steps(episodes, seen)
    learn, test = steps[_half(steps, 0)], steps[_half(steps, 1)]
    if min(len(np.unique(one.episodes)) for one in (learn, test)) < _EPISODES:
        return Observed(None, f"a fit needs {2 * _EPISODES} episodes, and has {len(episodes)}")
    if len(steps.at) < _STEPS or steps.now.shape[1] > _NUMBERS:
        what = f"{len(steps.at)} steps of {steps.now.shape[1]} numbers"
        return Observed(None, f"a fit takes {_STEPS} steps or more of up to {_NUMBERS} numbers,"
                        f" and has {what}")  # fmt: skip
    plain = fitted(learn.now, learn.targets).predicted(test.now)
    left = [_left(one, plain, test, i) for i, one in enumerate(targets)]
    known = [i for i, one in enumerate(left) if np.isfinite(one.value)]
    if not known:
        return Observed(None, "neither reward nor observation changes over the episodes")
    worst = max(known, key=lambda i: left[i].value)
    said = f"a fit to half of the episodes leaves {_share(left[worst])} of {targets[worst].name}"
    if all(left[i].high <= _TOLD for i in known):
        return Observed(
            True,
            f"{said} in the other half unexplained, and no more of anything that follows an"
            " observation and action: these tell it without the past",
        )
    return _with_past(learn, test, plain, targets, known, lags)


def _steps(
    episodes: Sequence[PlayedEpisode], seen: Sequence[Tensor]
) -> tuple[_Steps, list[_Target]]:
    """Steps with a next observation, by how much that differs; with those at which an episode ends
    where its length tells of one."""
    ends = len({one.length for one in episodes}) > 1 and any(one.ended for one in episodes)
    parts, at, numbers = [], [], []
    width = seen[0].shape[1]
    for number, (one, shown) in enumerate(zip(episodes, seen, strict=True)):
        last = one.length if ends else one.length - 1
        change = torch.cat([shown.diff(dim=0), shown.new_full((1, width), torch.nan)])
        over = torch.zeros(one.length, 1, dtype=torch.float64)
        over[-1] = float(one.ended)
        rewards = one.rewards.reshape(-1, 1)
        parts.append(torch.cat([shown, one.actions, rewards, change, over], 1)[:last])
        at += list(range(last))
        numbers += [number] * last
    wide = torch.cat(parts).numpy()
    own = width + episodes[0].actions.shape[1]
    names = [_Target("the reward")]
    names += [_Target(f"the change of number {i + 1} of the observation") for i in range(width)]
    names += [_Target("the end of an episode", event=True)] if ends else []
    targets = wide[:, own : own + len(names)]
    keep = np.isfinite(targets).all(1) | bool(ends)
    steps = _Steps(wide[:, :own], targets, np.array(numbers), np.array(at))
    return _filled(steps)[np.flatnonzero(keep)], names


def _filled(steps: _Steps) -> _Steps:
    """An episode's last step has no next observation: the mean stands there, which says
    nothing."""
    means = np.nan_to_num(np.nanmean(steps.targets, 0))
    targets = np.where(np.isfinite(steps.targets), steps.targets, means)
    return _Steps(np.nan_to_num(steps.now), targets, steps.episodes, steps.at)


def _half(steps: _Steps, which: int) -> Rows:
    return np.flatnonzero(steps.episodes % 2 == which)[: _TESTED if which else None]


def _left(target: _Target, told: Floats, test: _Steps, i: int) -> Estimated:
    """What is left of a target, with its interval."""
    of: Callable[[Rows], float] = partial(target.left, told[:, i], test.targets[:, i])
    low, high = bootstrapped(test.episodes, of)
    return Estimated(of(np.arange(len(told))), low, high)


def _with_past(
    learn: _Steps,
    test: _Steps,
    plain: Floats,
    targets: Sequence[_Target],
    known: Sequence[int],
    lags: int,
) -> Observed:
    """The same with the earlier observation that tells most, as the first half has it."""
    longest = min(lags, int(learn.at.max()), int(test.at.max()))
    tried = {
        k: fitted(*_before(learn, k)) for k in _LAGS if k <= longest and _rows(learn, k) > _STEPS
    }
    usual = [i for i in known if not targets[i].event]
    if not tried or not usual:
        return Observed(None, "the episodes are too short for a fit with earlier observations")
    alone = fitted(learn.now, learn.targets).left_out
    lag, i = min(
        ((k, i) for k in tried for i in usual),
        key=lambda pair: tried[pair[0]].left_out[pair[1]] / max(alone[pair[1]], 1e-12),
    )
    behind = _behind(test, lag)
    later, told = test[behind], tried[lag].predicted(_before(test, lag)[0])
    left, after = (_left(targets[i], one, later, i) for one in (plain[behind], told))
    figures = (
        f"a fit leaves {_share(left)} of {targets[i].name} unexplained by observation and"
        f" action, and {_share(after)} with those {counted(lag, 'step')} before"
    )
    counts = after.high <= _TOLD and left.low >= _UNTOLD
    few = learn.now.shape[1] <= _FEW
    return Observed(False if counts and few and _settled(learn, later, left, i) else None, figures)


def _settled(learn: _Steps, test: _Steps, left: Estimated, i: int) -> bool:
    """With half of what it was fitted on it would have left about as much."""
    told = fitted(learn.now, learn.targets, share=0.5).predicted(test.now)
    before = unexplained(told[:, i], test.targets[:, i], np.arange(len(told)))
    return left.value >= _LEARNT * before


def _behind(steps: _Steps, lag: int) -> Rows:
    return np.flatnonzero(steps.at >= lag)


def _rows(steps: _Steps, lag: int) -> int:
    return len(_behind(steps, lag))


def _before(steps: _Steps, lag: int) -> tuple[Floats, Floats]:
    """Features with those of ``lag`` steps before, and targets."""
    rows = _behind(steps, lag)
    return np.hstack([steps.now[rows], steps.now[rows - lag]]), steps.targets[rows]


def _share(found: Estimated) -> str:
    return f"{found.value:.1%} [{found.low:.1%}, {found.high:.1%}]"
