"""What replay loses: the error of the outputs in a slice that begins in the middle of an episode.

The truth is the whole episode from its first step. A slice starts from zero, from the state that
was stored with it, or from the state that older weights would have stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from rnncheck.numerics.paired import bootstrapped
from rnncheck.numerics.statistics import Floats
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.passes import IN_DOUBLE, RunSettings, StartStates, unroll_subject
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.recall.curves import MeasuredRows, RowNumbers
from rnncheck.recall.horizon import ROWS
from rnncheck.recall.measured import (
    CannotTell,
    EpisodePool,
    Measured,
    affordable_rows,
    states_over,
    whole_episodes,
)
from rnncheck.recall.outputs import MeasuredOutput
from rnncheck.results.memory import Estimated, ReplayCurve

_LINE = 90  # the percentile that must come below the share: of ten slices nine do


def replay_curves(
    measured: Measured, older: Subject | None, lags: int, share: float, seed: int
) -> Iterator[ReplayCurve]:
    """For every output a curve for each start. ``older`` is the policy with the weights that stored
    the states. Raises CannotTell."""
    pool = measured.pool
    slices = _Slices(measured.subject, pool, lags, seed)
    starts: dict[str, Mapping[Key, Tensor]] = {"zero": {}}
    if measured.stored:
        starts["stored"] = pool.states
    if older is not None:
        starts["stored by older weights"] = states_over(older, pool)
    runs = {name: slices.run(states) for name, states in starts.items()}
    for output in measured.outputs(runs["zero"]):
        noise = slices.noise(output)
        told = {name: slices.rows(output, run) for name, run in runs.items()}
        bound = share * _line(told["zero"], np.arange(len(slices.at)))[0]
        for name, rows in told.items():
            needed = _burn_in(rows, max(bound, noise))
            yield ReplayCurve(name, output.name, output.unit, rows.at_lags(), share, needed)


class _Slices:
    """Slices ``[rows, steps]`` that begin behind the first step of an episode, and their truth."""

    def __init__(self, subject: Subject, pool: EpisodePool, lags: int, seed: int) -> None:
        self.subject, self.pool = subject, pool
        longest = max(pool.lengths) - 1
        self.steps = min(lags + 1, longest)
        rows = _begins(pool, affordable_rows(pool, self.steps, ROWS), seed)
        self.at, self.inside = pool.window(rows, self.steps)
        self.episodes = np.array([e for e, _ in rows])
        self.cut = pool.goes_on or lags + 1 < longest
        self.truth = _gathered(whole_episodes(subject, pool, RunSettings()), self.at)
        try:
            self.precise = _gathered(whole_episodes(subject, pool, IN_DOUBLE), self.at)
        except Exception:  # the user's module may know one dtype
            self.precise = self.truth

    def run(self, states: Mapping[Key, Tensor]) -> TensorDict:
        """From the stored state of the slice's first step; from a fresh one without any."""
        starts = torch.zeros(self.at.shape, dtype=torch.bool)
        starts[:, 0] = not states
        first = {key: value[self.at[:, 0]] for key, value in states.items()}
        return unroll_subject(
            self.subject, self.pool.inputs[self.at], starts, StartStates(first=first or None)
        )

    def rows(self, output: MeasuredOutput, run: TensorDict) -> MeasuredRows:
        """The distance from the truth."""
        values = output.distance(self.truth, run).amax(-1).detach().cpu().numpy()
        there = self.inside.numpy()
        return MeasuredRows(values.astype(np.float64), there, self.episodes, 0, self.cut)

    def noise(self, output: MeasuredOutput) -> float:
        """What rounding makes of the truth."""
        return float(output.distance(self.truth, self.precise)[self.inside].max())


def _begins(pool: EpisodePool, most: int, seed: int) -> list[tuple[int, int]]:
    steps = [(e, s) for e, length in enumerate(pool.lengths) for s in range(1, length)]
    if not steps:
        raise CannotTell("no episode has a second step")
    order = torch.randperm(len(steps), generator=torch.Generator().manual_seed(seed))
    return [steps[i] for i in order.tolist()[:most]]


def _gathered(steps: TensorDict, at: Tensor) -> TensorDict:
    return TensorDict({k: steps.get(k)[at] for k in tensor_keys(steps)}, batch_size=at.shape)


def _line(rows: MeasuredRows, chosen: RowNumbers) -> Floats:
    """The 90 % line by position; nothing (0) behind the last one."""
    line = np.zeros(rows.longest + 1)
    for position in range(rows.longest + 1):
        values = rows.distances[chosen, position][rows.there[chosen, position]]
        if values.size:
            line[position] = np.percentile(values, _LINE)
    return line


def _burn_in(rows: MeasuredRows, bound: float) -> Estimated:
    """The first position from which on the line stays within ``bound``; beyond the last one where
    none does."""

    def needed(chosen: RowNumbers) -> float:
        above = np.flatnonzero(_line(rows, chosen) > bound)
        return float(above.max() + 1) if above.size else 0.0

    value = needed(np.arange(len(rows.episodes)))
    low, high = bootstrapped(rows.episodes, needed)
    beyond = value > rows.longest
    return Estimated(value, min(low, value), max(high, value), beyond)
