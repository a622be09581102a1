"""Whether the memory matters: the return of the same episodes with the policy's own state, and with
one that is reset, foreign or frozen.

Episodes are paired by seed and played in blocks that double, each treatment until it is clear. The
interval of each look has its share of the 5 % (Bonferroni), so that looking again does not make
chance clear.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rnncheck.numerics.paired import mean_difference
from rnncheck.numerics.stopping import corrected
from rnncheck.pipeline.subject.env_facts import Env
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.recall.session import (
    OWN_STATE,
    FromOther,
    FrozenState,
    PlayedEpisode,
    ResetEvery,
    StateTreatment,
    play_episode,
)
from rnncheck.results.memory import Estimated, ReturnEffect, ReturnsUnder

FIRST_BLOCK = 8  # episodes: fewer say nothing of a mean. Chosen
EVERY = (4, 16)  # steps between resets, beside 1, where episodes are longer: chosen
# A loss within this share of the return, or of its deviation between episodes where that is larger,
# counts as none: chosen, below what training runs of the same agent differ by.
MARGIN = 0.1


def treatments_for(longest: int, others: bool) -> list[str]:
    """What is done to the state, by name."""
    every = [ResetEvery(k).name for k in (1, *EVERY) if k == 1 or k < longest]
    foreign = [FromOther.name] if others else []
    return [OWN_STATE.name, *every, *foreign, FrozenState.name]


def returns_under(
    subject: Subject,
    env: Env,
    recorded: Sequence[PlayedEpisode],
    *,
    seed: int,
    most: int,
    steps: int,
    before: Mapping[str, Sequence[float]],
) -> Iterator[tuple[ReturnsUnder, ...]]:
    """The returns after each block of at most ``most`` episodes of at most ``steps`` steps.

    ``before`` are those of an earlier run, which is gone on with.
    """
    names = treatments_for(max(one.length for one in recorded), len(recorded) > 1)
    returns = {name: list(before.get(name, ())) for name in names}
    looks, open_ = _looks(most), set(names)
    for wanted in looks:
        for name in names:
            while name in open_ and len(returns[name]) < wanted:
                played = len(returns[name])
                treatment = _made(name, recorded, played)
                found = play_episode(subject, env, seed + played, steps, treatment)
                returns[name] += [one.total for one in found]
        told = judged_returns(returns, len(looks))
        yield told
        open_ = {one.treatment for one in told if one.effect is ReturnEffect.UNCLEAR}
        if not open_:
            return
        open_.add(OWN_STATE.name)


def _looks(most: int) -> list[int]:
    """After how many episodes is looked."""
    count = max(1, int(math.log2(max(1, most / FIRST_BLOCK))) + 1)
    return [min(most, FIRST_BLOCK * 2**i) for i in range(count)]


def _made(name: str, recorded: Sequence[PlayedEpisode], number: int) -> StateTreatment:
    """A treatment by its name, for the episode ``number``: a foreign state is never its own."""
    if name == FromOther.name:
        return FromOther(recorded[(number + 1) % len(recorded)].states)
    if name == FrozenState.name:
        return FrozenState()
    every = [one for k in (1, *EVERY) if (one := ResetEvery(k)).name == name]
    return every[0] if every else OWN_STATE


def judged_returns(returns: Mapping[str, Sequence[float]], looks: int) -> tuple[ReturnsUnder, ...]:
    """Each treatment against the policy's own state, which comes first.

    Where all differences of a treatment agree, another may still be as large as what was seen of
    returns at all. Where every return is 0 nothing says how large that is: it stays unclear.
    """
    own = np.asarray(returns[OWN_STATE.name], dtype=np.float64)
    lost = {name: own[: len(one)] - np.asarray(one) for name, one in returns.items()}
    scale = _largest_loss(np.concatenate([np.asarray(one) for one in returns.values()]))
    found = []
    for name, one in returns.items():
        if name == OWN_STATE.name:
            found.append(ReturnsUnder(name, tuple(one)))
            continue
        sizes = abs(float(own.mean())), abs(float(np.mean(one))), float(own.std())
        estimate = mean_difference(lost[name], scale, corrected(looks))
        margin = MARGIN * max(sizes)
        effect = _effect(estimate, margin) if scale else ReturnEffect.UNCLEAR
        found.append(ReturnsUnder(name, tuple(one), estimate, effect, margin))
    return tuple(found)


def _largest_loss(seen: NDArray[np.float64]) -> float:
    """How much an episode could lose, as far as the returns tell: one of them, or what lies between
    two."""
    return max(float(np.abs(seen).max()), float(np.ptp(seen)))


def _effect(lost: Estimated, margin: float) -> ReturnEffect:
    if -margin <= lost.low and lost.high <= margin:
        return ReturnEffect.SAME
    if lost.low > 0:
        return ReturnEffect.WORSE
    return ReturnEffect.BETTER if lost.high < 0 else ReturnEffect.UNCLEAR
