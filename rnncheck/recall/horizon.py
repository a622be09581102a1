"""How far back: what an earlier observation does to a later output.

The observation of a step is replaced by that of another real step, and the episode goes on from
there with its own observations: whatever differs later came through the state. What rounding alone
does to the output, by the same steps in float64, is the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.passes import IN_DOUBLE, RunSettings, StartStates, unroll_subject
from rnncheck.pipeline.subject.subject import Subject, next_key
from rnncheck.recall.curves import MeasuredCurve, MeasuredRows
from rnncheck.recall.gradient import gradient_curves
from rnncheck.recall.measured import CannotTell, EpisodePool, Measured, affordable_rows
from rnncheck.recall.outputs import MeasuredOutput
from rnncheck.recall.session import States
from rnncheck.results.memory import InfluenceCurve, InfluenceMatrix

ROWS = 256  # replaced observations: chosen, ten for each lag of a usual horizon, a second of work
_MATRIX = 24  # steps of either episode in the matrix: chosen, what a picture still shows


@dataclass(frozen=True)
class Replacement:
    """Windows that begin with a step whose observation is replaced; all ``[rows, steps]``."""

    rows: list[tuple[int, int]]
    inputs: TensorDictBase
    others: TensorDictBase  # what stands in the first step instead, [rows, 1]
    starts: Tensor
    inside: Tensor
    first: States
    cut: bool

    @property
    def episodes(self) -> NDArray[np.int64]:
        return np.array([e for e, _ in self.rows])


def influence(measured: Measured, lags: int, seed: int) -> Iterator[InfluenceCurve]:
    """The curves of every output and of every part of the state, by replacement and by
    gradient."""
    generator = torch.Generator().manual_seed(seed)
    made = _replacement(measured.subject, measured.pool, lags, generator)
    trial = _Trial(measured.subject, made)
    outputs = measured.outputs(trial.base)
    for output in outputs:
        yield from trial.curves(output)
    for key in measured.states:
        yield from trial.state_curves(key)
    yield from gradient_curves(measured, outputs, lags, generator)


def _replacement(
    subject: Subject, pool: EpisodePool, lags: int, generator: torch.Generator
) -> Replacement:
    longest = max(pool.lengths) - 1
    steps = min(lags, longest) + 1
    rows = _sources(pool, affordable_rows(pool, steps, ROWS), generator)
    at, inside = pool.window(rows, steps)
    donors = _donors(subject, pool, at[:, 0], generator)
    starts = torch.zeros(len(rows), steps, dtype=torch.bool)
    starts[:, 0] = torch.tensor([s == 0 for _, s in rows])
    first = {key: value[at[:, 0]] for key, value in pool.states.items()}
    others = pool.inputs[donors].unsqueeze(1)
    return Replacement(
        rows, pool.inputs[at], others, starts, inside, first, pool.goes_on or lags < longest
    )


def _sources(pool: EpisodePool, most: int, generator: torch.Generator) -> list[tuple[int, int]]:
    """Which steps are replaced: the first of each episode, then any that has one behind it."""
    firsts = [(e, 0) for e, length in enumerate(pool.lengths) if length > 1]
    others = [(e, s) for e, length in enumerate(pool.lengths) for s in range(1, length - 1)]
    order = torch.randperm(len(others), generator=generator).tolist()
    return (firsts + [others[i] for i in order])[:most]


def _donors(
    subject: Subject, pool: EpisodePool, replaced: Tensor, generator: torch.Generator
) -> Tensor:
    """For each replaced step one whose observation is another. Raises CannotTell."""
    keys = [key for key in tensor_keys(pool.inputs) if not subject.reads or key in subject.reads]
    if not keys:
        raise CannotTell("the policy reads nothing that the env gives")
    flat = [pool.inputs.get(k).double().nan_to_num().flatten(1) for k in keys]
    wide = torch.cat([one if one.shape[1] else one.new_zeros(len(one), 1) for one in flat], 1)
    _, kinds = wide.unique(dim=0, return_inverse=True)
    if int(kinds.max()) == 0:
        raise CannotTell("every observation of the episodes is the same")
    found = []
    for step in replaced.tolist():
        candidates = (kinds != kinds[step]).nonzero().flatten()
        pick = int(torch.randint(len(candidates), (1,), generator=generator))
        found.append(candidates[pick])
    return torch.stack(found)


class _Trial:
    """Windows as they were and with the first observation replaced, through the whole state and
    through each part of it alone."""

    def __init__(self, subject: Subject, made: Replacement) -> None:
        self.subject, self.made = subject, made
        begin = self._run(made.inputs[:, :1], made.starts[:, :1], made.first)
        changed = self._run(made.others, made.starts[:, :1], made.first)
        self._own, self._new = self._after(begin), self._after(changed)
        self.base = self._joined(begin, self._own)
        self.replaced = self._joined(changed, self._new)
        self.precise = self._precise()

    def _run(
        self, inputs: TensorDictBase, starts: Tensor, first: States, *, double: bool = False
    ) -> TensorDict:
        settings = IN_DOUBLE if double else RunSettings()
        states = StartStates(first=first)
        return unroll_subject(self.subject, inputs, starts, states, settings=settings)

    def _after(self, out: TensorDict) -> States:
        """The states behind a first step."""
        first = self.made.first
        return {k: out.get(next_key(k), first[k].unsqueeze(1))[:, 0] for k in first}

    def _joined(self, begin: TensorDict, state: States) -> TensorDict:
        """The first step and what follows from ``state``."""
        rest = self._run(self.made.inputs[:, 1:], self.made.starts[:, 1:], state)
        shared = [key for key in tensor_keys(begin) if key in tensor_keys(rest)]
        both = {key: torch.cat([begin.get(key), rest.get(key)], 1) for key in shared}
        return TensorDict(both, batch_size=self.made.starts.shape)

    def _precise(self) -> TensorDict:
        """What the same steps give in float64; where that cannot run, in a batch of another
        size."""
        made = self.made
        with suppress(Exception):  # the user's module may know one dtype
            return self._run(made.inputs, made.starts, made.first, double=True)
        half = (len(made.rows) + 1) // 2
        parts = [slice(0, half), slice(half, None)] if half < len(made.rows) else [slice(None)]
        runs = [
            self._run(made.inputs[p], made.starts[p], {k: v[p] for k, v in made.first.items()})
            for p in parts
        ]
        return torch.cat(runs)

    def curves(self, output: MeasuredOutput) -> Iterator[InfluenceCurve]:
        """Through the whole state, then through each key alone where there are several; for each
        agent."""
        noise = self._noise(output)
        moved = output.distance(self.base, self.replaced)
        yield from self._of_agents(MeasuredCurve(output, noise), moved)
        for key in self.subject.carry if len(self.subject.carry) > 1 else ():
            state = {k: self._new[k] if k == key else v for k, v in self._own.items()}
            moved = output.distance(self.base[:, 1:], self._rest(state))
            through = MeasuredCurve(output, noise, through=dotted(key))
            yield from self._of_agents(through, moved, first=1)

    def _of_agents(
        self, curve: MeasuredCurve, moved: Tensor, first: int = 0
    ) -> Iterator[InfluenceCurve]:
        for agent in range(moved.shape[-1]):
            number = agent if moved.shape[-1] > 1 else None
            yield replace(curve, agent=number).told(self._rows(moved[:, :, agent], first))

    def _rest(self, state: States) -> TensorDict:
        return self._run(self.made.inputs[:, 1:], self.made.starts[:, 1:], state)

    def state_curves(self, key: Key) -> Iterator[InfluenceCurve]:
        """How far the state itself moves."""
        whole = next_key(key)
        if self.base.get(whole, None) is None:
            return
        output = MeasuredOutput(f"state {dotted(key)}", (whole,))
        moved = output.distance(self.base, self.replaced)[:, :, 0]
        noise = self._noise(output)
        yield MeasuredCurve(output, noise, of_state=True).told(self._rows(moved))

    def _noise(self, output: MeasuredOutput) -> float:
        moved = output.distance(self.base, self.precise)[self.made.inside]
        return float(moved.max())

    def _rows(self, moved: Tensor, first: int = 0) -> MeasuredRows:
        there = self.made.inside[:, first:].numpy()
        values = moved.detach().cpu().numpy().astype(np.float64)
        return MeasuredRows(values, there, self.made.episodes, first, self.made.cut)


def influence_matrix(measured: Measured, seed: int) -> InfluenceMatrix | None:
    """Each step of two episodes end to end replaced in turn; None with a single episode."""
    subject, pool = measured.subject, measured.pool
    if len(pool.lengths) < 2:
        return None
    generator = torch.Generator().manual_seed(seed)
    sizes = [min(length, _MATRIX) for length in pool.lengths[:2]]
    steps = torch.cat([torch.arange(b, b + n) for b, n in zip(pool.begins, sizes, strict=False)])
    count = len(steps)
    starts = torch.zeros(count, count, dtype=torch.bool)
    starts[:, 0] = starts[:, sizes[0]] = True
    base = pool.inputs[steps].unsqueeze(0).expand(count, count).clone()
    changed, every = base.clone(), torch.arange(count)
    changed[every, every] = pool.inputs[_donors(subject, pool, steps, generator)]
    runs = [unroll_subject(subject, inputs, starts) for inputs in (base, changed)]
    output = measured.outputs(runs[0])[0]
    moved = output.distance(*runs).amax(-1).tolist()
    return InfluenceMatrix(output.name, output.unit, sizes[0], tuple(map(tuple, moved)))
