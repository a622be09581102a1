"""Whether an observation holds all that the task takes.

It does where it holds the env's own state. It does not where the same observation and action lead
to something else by what was seen before. Of continuous observations none comes twice, and whether
the past tells more than they do cannot be tested without assumptions (Shah and Peters 2020, "The
Hardness of Conditional Independence Testing"): what a fit tells of them is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import fisher_exact
from torch import Tensor

from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.printable import counted
from rnncheck.recall.observed.readout import read_out
from rnncheck.recall.session import PlayedEpisode
from rnncheck.results.memory import Observed

_LEVEL = 0.01  # of error of all comparisons together: chosen
_EPISODES = 8  # that meet the same observation and action: fewer say nothing. Chosen
_SIDE = 3  # episodes on either side of a comparison: chosen
_COMPARED = 2000  # the most comparisons: chosen, a second of work
_STEPS = 64  # fewer may put a number in order by chance: chosen

Codes = NDArray[np.int64]


def observed_by(subject: Subject, episodes: Sequence[PlayedEpisode], lags: int) -> Observed:
    """Whether each observation shows what the task takes, or why it could not be told."""
    seen = [_wide(subject, one) for one in episodes]
    depends = _past_counts(episodes, seen, lags)
    if depends.lag:
        return Observed(False, depends.said)
    by_state = _by_state(episodes, torch.cat(seen))
    if by_state.whole:
        return by_state
    by_fit = read_out(episodes, seen, lags)
    if by_fit.whole is not None:
        return by_fit
    return Observed(None, f"{by_state.because}, {depends.said}, and {by_fit.because}")


def _by_state(episodes: Sequence[PlayedEpisode], values: Tensor) -> Observed:
    """Whether the observations ``[steps, numbers]`` hold the env's own state."""
    shown = [one.env_states for one in episodes if one.env_states is not None]
    if len(shown) < len(episodes):
        return Observed(None, "the env shows no state of its own")
    if len(values) < _STEPS:
        return Observed(None, f"the episodes have {counted(len(values), 'step')}")
    if not (missing := _hidden(torch.cat(shown), values)):
        return Observed(True, "each observation holds the env's own state")
    told = f"no number of the observation follows {missing} of {shown[0].shape[1]} numbers"
    return Observed(None, f"{told} of the env's own state")


def _wide(subject: Subject, episode: PlayedEpisode) -> Tensor:
    """What the policy reads at each step, ``[steps, numbers]`` in float64."""
    keys = [k for k in tensor_keys(episode.inputs) if not subject.reads or k in subject.reads]
    parts = [episode.inputs.get(key).detach().double().cpu() for key in keys]
    empty = [torch.zeros(episode.length, 0, dtype=torch.float64)]
    return torch.cat([*empty, *(one.reshape(episode.length, -1) for one in parts)], 1)


def _hidden(states: Tensor, values: Tensor) -> int:
    """How many numbers of the env's state no number of the observation follows."""
    return sum(
        not any(_follows(states[:, i], values[:, j]) for j in range(values.shape[1]))
        for i in range(states.shape[1])
    )


def _follows(state: Tensor, value: Tensor) -> bool:
    """Whether ``value`` rises, or falls, with ``state`` and with nothing else; the state as exact
    as an observation of 32 bits is."""
    order = state.float().argsort(stable=True)
    steps, moved = state.float()[order].diff(), value[order].diff()
    still = bool((moved[steps == 0] == 0).all())
    rising = moved[steps > 0]
    return still and bool((rising > 0).all() or (rising < 0).all())


@dataclass(frozen=True)
class PastCounts:
    """At which lag the past counts beside observation and action, 0 for none, and what was seen."""

    lag: int
    said: str


@dataclass(frozen=True)
class Visit:
    """The first time in an episode that an observation and action were met: what was seen ``lag``
    steps before, for each lag from 1 on, and what followed."""

    before: tuple[int, ...]
    after: int


def _past_counts(
    episodes: Sequence[PlayedEpisode], seen: Sequence[Tensor], lags: int
) -> PastCounts:
    shown = _codes(torch.cat(list(seen)))
    acted = torch.cat([one.actions for one in episodes])
    kinds = _codes(torch.cat([torch.from_numpy(shown)[:, None].double(), acted], 1))
    rewards = _codes(torch.cat([one.rewards for one in episodes])[:, None])
    visits: dict[int, list[Visit]] = {}
    begin = 0
    for one in episodes:
        met = set[int]()
        for t in range(begin, begin + one.length):
            if (kind := int(kinds[t])) not in met:
                met.add(kind)
                earlier = shown[max(begin, t - lags) : t][::-1]
                before = tuple(int(code) for code in earlier)
                visits.setdefault(kind, []).append(Visit(before, int(rewards[t])))
        begin += one.length
    return past_counts(list(visits.values()))


def _codes(rows: Tensor) -> Codes:
    """A number for each of ``rows``, the same for equal ones."""
    if not rows.shape[1]:
        return np.zeros(len(rows), dtype=np.int64)
    found: Codes = rows.nan_to_num().unique(dim=0, return_inverse=True)[1].numpy()
    return found


def past_counts(visits: Sequence[Sequence[Visit]]) -> PastCounts:
    """Whether what was seen before changes what follows, for each group of visits to the same
    observation and action, one of an episode.

    Given both, a reward that needs nothing else is independent of all that was before: Fisher's
    exact test, corrected for the number of comparisons.
    """
    enough = [group for group in visits if len(group) >= _EPISODES]
    if not enough:
        return PastCounts(0, f"no observation and action came again in {_EPISODES} episodes")
    tables = list(islice((one for group in enough for one in _tables(group)), _COMPARED))
    if not tables:
        return PastCounts(0, "the same observation and action gave the same reward")
    chances = [float(fisher_exact(np.array([one[1:3], one[3:5]])).pvalue) for one in tables]
    best = int(np.argmin(chances))
    chance = min(1.0, chances[best] * len(tables))
    if chance >= _LEVEL:
        told = f"no earlier one was seen to change what they give (p = {chance:.2g})"
        return PastCounts(0, f"where the same observation and action came again, {told}")
    lag = tables[best][0]
    steps = counted(lag, "step")
    return PastCounts(
        lag,
        "the same observation and action give another reward where another observation was seen"
        f" {steps} before (p = {chance:.2g} in {sum(tables[best][1:])} episodes, Fisher's exact"
        " test)",
    )


def _tables(group: Sequence[Visit]) -> Iterator[tuple[int, ...]]:
    """Lag and counts: with one earlier observation and with others, of one reward and of others."""
    for lag in range(1, max(len(one.before) for one in group) + 1):
        reaching = [one for one in group if len(one.before) >= lag]
        pasts = np.array([one.before[lag - 1] for one in reaching])
        afters = np.array([one.after for one in reaching])
        for past in np.unique(pasts):
            for after in np.unique(afters):
                left, right = pasts == past, afters == after
                sides = left.sum(), (~left).sum(), right.sum(), (~right).sum()
                if min(sides) >= _SIDE:
                    counts = [
                        int((one & other).sum())
                        for one in (left, ~left)
                        for other in (right, ~right)
                    ]
                    yield (lag, *counts)
