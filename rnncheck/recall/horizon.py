"""How far back: what an earlier observation does to a later output.

The observation of a step is replaced by that of another real step, and the episode goes on from
there with its own observations: whatever differs later came through the state. What rounding alone
does to the output, by the same steps in float64, is the noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.passes import IN_DOUBLE, RunSettings, StartStates, unroll_subject
from rnncheck.pipeline.subject.subject import Subject, next_key
from rnncheck.recall.curves import MeasuredRows, half_life_of, horizon_of, reach_of
from rnncheck.recall.outputs import MeasuredOutput, measured_outputs
from rnncheck.recall.session import PlayedEpisode, States
from rnncheck.results.memory import InfluenceCurve, InfluenceMatrix

ROWS = 256  # replaced observations: chosen, ten for each lag of a usual horizon, a second of work
_GRADIENT_ROWS = 64  # each keeps its graph
_PROJECTIONS = 2  # random ones of the outputs, whose squared gradients are averaged
_MATRIX = 24  # steps of either episode in the matrix: chosen, what a picture still shows
_BYTES = 2**26  # of one batch of windows, 64 MiB


class CannotTell(Exception):
    """A question that these episodes do not answer, and why."""


@dataclass(frozen=True)
class EpisodePool:
    """The steps of all recorded episodes, end to end."""

    inputs: TensorDictBase  # [steps]
    states: Mapping[Key, Tensor]  # [steps, ...], before each step
    lengths: tuple[int, ...]

    @property
    def begins(self) -> list[int]:
        return [sum(self.lengths[:i]) for i in range(len(self.lengths))]

    def window(self, rows: Sequence[tuple[int, int]], steps: int) -> tuple[Tensor, Tensor]:
        """Step numbers ``[rows, steps]`` from ``(episode, step)`` on, and which of them are inside
        the episode; behind its end the last step stands."""
        begin = torch.tensor([self.begins[e] for e, _ in rows])
        last = torch.tensor([self.lengths[e] - 1 for e, _ in rows])
        at = torch.tensor([s for _, s in rows])[:, None] + torch.arange(steps)
        inside = (at >= 0) & (at <= last[:, None])
        return begin[:, None] + at.clamp(min=0).minimum(last[:, None]), inside


def pool_of(episodes: Sequence[PlayedEpisode]) -> EpisodePool:
    """All steps of ``episodes``. Raises CannotTell where none has an earlier step."""
    lengths = tuple(one.length for one in episodes)
    if max(lengths, default=0) < 2:
        raise CannotTell("every episode has a single step")
    inputs = torch.cat([one.inputs for one in episodes])
    keys = episodes[0].states
    states = {key: torch.cat([one.states[key] for one in episodes]) for key in keys}
    return EpisodePool(inputs, states, lengths)


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


def influence(
    subject: Subject, pool: EpisodePool, agents: dict[str, int], lags: int, seed: int
) -> Iterator[InfluenceCurve]:
    """The curves of every output and of every part of the state, by replacement and by
    gradient."""
    generator = torch.Generator().manual_seed(seed)
    made = _replacement(subject, pool, lags, generator)
    trial = _Trial(subject, made)
    outputs = measured_outputs(subject, trial.base, agents)
    if not outputs:
        raise CannotTell("the policy puts out no floats and no distribution")
    for output in outputs:
        yield from trial.curves(output)
    for key in subject.carry:
        yield from trial.state_curves(key)
    with suppress(CannotTell):
        yield from _by_gradient(subject, pool, outputs, lags, generator)


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
    return Replacement(rows, pool.inputs[at], others, starts, inside, first, lags < longest)


def affordable_rows(pool: EpisodePool, steps: int, wanted: int) -> int:
    """How many rows of so many steps fit into ``_BYTES``."""
    one = pool.inputs[0]
    size = sum(one.get(key).nbytes for key in tensor_keys(one))
    return max(8, min(wanted, _BYTES // max(1, int(size) * steps)))


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
        """Through the whole state, then through each key alone where there are several."""
        noise = self._noise(output)
        moved = output.distance(self.base, self.replaced)
        for agent in range(output.agents):
            number = agent if output.agents > 1 else None
            yield self._curve(output, moved[:, :, agent], noise, agent=number)
        if len(self.subject.carry) > 1:
            for key in self.subject.carry:
                state = {k: self._new[k] if k == key else v for k, v in self._own.items()}
                base, other = self.base[:, 1:], self._rest(state)
                moved = output.distance(base, other).amax(-1)
                yield self._curve(output, moved, noise, through=dotted(key), first=1)

    def _rest(self, state: States) -> TensorDict:
        return self._run(self.made.inputs[:, 1:], self.made.starts[:, 1:], state)

    def state_curves(self, key: Key) -> Iterator[InfluenceCurve]:
        """How far the state itself moves."""
        whole = next_key(key)
        if self.base.get(whole, None) is None or not self.base.get(whole).is_floating_point():
            return
        output = MeasuredOutput(f"state {dotted(key)}", (whole,))
        moved = output.distance(self.base, self.replaced)[:, :, 0]
        yield self._curve(output, moved, self._noise(output), of_state=True)

    def _noise(self, output: MeasuredOutput) -> float:
        moved = output.distance(self.base, self.precise)[self.made.inside]
        return float(moved.max())

    def _curve(
        self,
        output: MeasuredOutput,
        moved: Tensor,
        noise: float,
        *,
        agent: int | None = None,
        through: str = "",
        first: int = 0,
        of_state: bool = False,
    ) -> InfluenceCurve:
        there = self.made.inside[:, first:].numpy()
        values = moved.detach().cpu().numpy().astype(np.float64)
        rows = MeasuredRows(values, there, self.made.episodes, first, self.made.cut)
        return _curve_of(output, rows, noise, "replaced", through, agent, of_state)


def _curve_of(
    output: MeasuredOutput,
    rows: MeasuredRows,
    noise: float,
    method: str,
    through: str = "",
    agent: int | None = None,
    of_state: bool = False,
) -> InfluenceCurve:
    lags = rows.at_lags()
    horizon = horizon_of(lags, noise)
    return InfluenceCurve(
        output=output.name,
        unit=output.unit if method == "replaced" else "norm of the Jacobian",
        method=method,
        through=through,
        agent=agent,
        lags=lags,
        noise=noise,
        longest=rows.longest,
        horizon=horizon,
        reach=reach_of(rows) if horizon else None,
        half_life=half_life_of(rows) if horizon else None,
        of_state=of_state,
    )


# --- by gradient ---------------------------------------------------------------------------------


def _by_gradient(
    subject: Subject,
    pool: EpisodePool,
    outputs: Sequence[MeasuredOutput],
    lags: int,
    generator: torch.Generator,
) -> Iterator[InfluenceCurve]:
    """The Jacobian of the last output of a window with respect to each of its observations."""
    steps = min(lags, max(pool.lengths) - 1) + 1
    ends = [(e, t) for e, length in enumerate(pool.lengths) for t in range(1, length)]
    most = affordable_rows(pool, steps, _GRADIENT_ROWS)
    chosen = [ends[i] for i in torch.randperm(len(ends), generator=generator).tolist()[:most]]
    chosen += [(e, length - 1) for e, length in enumerate(pool.lengths[:most]) if length > 1]
    rows = [(e, t - steps + 1) for e, t in dict.fromkeys(chosen)]
    at, inside = pool.window(rows, steps)
    inputs, leaves = _with_leaves(subject, pool.inputs[at])
    starts = torch.tensor([[s + j == 0 for j in range(steps)] for _, s in rows])
    first = {key: value[at[:, 0]] for key, value in pool.states.items()}
    out = unroll_subject(
        subject, inputs, starts, StartStates(first=first), settings=RunSettings(grad=True)
    )
    for output in outputs:
        norms = _jacobians(output, out, leaves, generator)
        there = inside.flip(1).numpy()
        episodes = np.array([e for e, _ in rows])
        cut = lags < max(pool.lengths) - 1
        measured = MeasuredRows(norms.flip(1).numpy(), there, episodes, 0, cut)
        yield _curve_of(output, measured, 0.0, "gradient")


def _with_leaves(subject: Subject, inputs: TensorDictBase) -> tuple[TensorDictBase, list[Tensor]]:
    keys = [
        key
        for key in tensor_keys(inputs)
        if (not subject.reads or key in subject.reads) and inputs.get(key).is_floating_point()
    ]
    if not keys:
        raise CannotTell("no observation is a float")
    leaves = [inputs.get(key).detach().clone().requires_grad_() for key in keys]
    wanted = inputs.copy()
    for key, leaf in zip(keys, leaves, strict=True):
        wanted.set(key, leaf)
    return wanted, leaves


def _jacobians(
    output: MeasuredOutput,
    out: TensorDictBase,
    leaves: list[Tensor],
    generator: torch.Generator,
) -> Tensor:
    """``[rows, steps]``: the Frobenius norm, from random projections (Hutchinson 1989)."""
    ends = [out.get(key)[:, -1] for key in output.keys]
    if not any(one.requires_grad for one in ends):
        raise CannotTell("the outputs have no gradient")
    total: Tensor | None = None
    for _ in range(_PROJECTIONS):
        signs = [torch.randint(0, 2, one.shape, generator=generator) * 2 - 1 for one in ends]
        scalar = sum((one * sign).sum() for one, sign in zip(ends, signs, strict=True))
        found = torch.autograd.grad(scalar, leaves, retain_graph=True, allow_unused=True)
        for one in found:
            if one is not None:
                squared = one.detach().double().flatten(2).square().sum(-1)
                total = squared if total is None else total + squared
    if total is None:
        rows, steps = leaves[0].shape[:2]
        total = torch.zeros(rows, steps, dtype=torch.float64)
    return (total / _PROJECTIONS).sqrt()


# --- the matrix ----------------------------------------------------------------------------------


def influence_matrix(
    subject: Subject, pool: EpisodePool, agents: dict[str, int], seed: int
) -> InfluenceMatrix | None:
    """Each step of two episodes end to end replaced in turn; None with a single episode."""
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
    output = next(iter(measured_outputs(subject, runs[0], agents)), None)
    if output is None:
        return None
    moved = output.distance(*runs).amax(-1).tolist()
    return InfluenceMatrix(output.name, output.unit, sizes[0], tuple(map(tuple, moved)))
