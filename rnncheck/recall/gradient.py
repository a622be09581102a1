"""How far back by gradient: the Jacobian of an output with respect to earlier observations, in a
pass as training makes it, so that a graph that is cut on the way is seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.numerics.statistics import Floats
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.passes import (
    RunSettings,
    StartStates,
    run_recurrent,
    unroll_subject,
)
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.recall.curves import MeasuredCurve, MeasuredRows
from rnncheck.recall.measured import EpisodePool, Measured, affordable_rows
from rnncheck.recall.outputs import MeasuredOutput
from rnncheck.results.memory import InfluenceCurve

_ROWS = 64  # each keeps its graph
_PROJECTIONS = 2  # random ones of the outputs, whose squared gradients are averaged
# Of the outputs' size: by how much the two modes may differ and still be the same function, in
# float32 over many steps; a module that takes every step alone is off by far more. Chosen.
_SAME = 1e-3


def gradient_curves(
    measured: Measured, outputs: Sequence[MeasuredOutput], lags: int, generator: torch.Generator
) -> Iterator[InfluenceCurve]:
    """One for each output and agent; none where no float is read. Raises CannotTell."""
    windows = _windows(measured.pool, lags, generator)
    leaves, partial = _leaves(measured.subject, windows.inputs)
    if not leaves:
        return
    out = _passed(measured.subject, windows, leaves)
    for output in outputs:
        if not any(out.get(key).requires_grad for key in output.keys):
            continue
        agents = output.agents_in(out)
        for agent in range(agents):
            norms = _jacobians(_ends(output, out, windows, agent, agents), leaves, generator)
            curve = MeasuredCurve(
                output, 0.0, "gradient", agent=agent if agents > 1 else None, partial=partial
            )
            yield curve.told(windows.by_lag(norms))


@dataclass(frozen=True)
class _Windows:
    """Rows ``[rows, columns]`` of steps, each with the column of the output that is asked.

    The columns differ from row to row: a pass that cuts its graph every so many steps does so at
    other lags of each.
    """

    inputs: TensorDictBase
    starts: Tensor
    first: dict[Key, Tensor]
    inside: Tensor
    episodes: NDArray[np.int64]
    ends: Tensor  # [rows]
    steps: int  # how many lags are looked at, with lag 0
    cut: bool

    def by_lag(self, norms: Tensor) -> MeasuredRows:
        """``norms`` ``[rows, columns]`` by how many steps before its row's end each is."""
        columns = self.ends[:, None] - torch.arange(self.steps)
        values: Floats = norms.gather(1, columns).numpy()
        there = self.inside.gather(1, columns).numpy()
        return MeasuredRows(values, there, self.episodes, 0, self.cut)


def _windows(pool: EpisodePool, lags: int, generator: torch.Generator) -> _Windows:
    longest = max(pool.lengths) - 1
    steps = min(lags, longest) + 1
    columns = 2 * steps - 1
    asked = [(e, t) for e, length in enumerate(pool.lengths) for t in range(1, length)]
    most = affordable_rows(pool, columns, _ROWS)
    chosen = [asked[i] for i in torch.randperm(len(asked), generator=generator).tolist()[:most]]
    chosen += [(e, length - 1) for e, length in enumerate(pool.lengths[:most]) if length > 1]
    chosen = list(dict.fromkeys(chosen))
    ends = [steps - 1 + i % steps for i in range(len(chosen))]
    rows = [(e, t - end) for (e, t), end in zip(chosen, ends, strict=True)]
    at, inside = pool.window(rows, columns)
    return _Windows(
        pool.inputs[at],
        torch.tensor([[s + j == 0 for j in range(columns)] for _, s in rows]),
        {key: value[at[:, 0]] for key, value in pool.states.items()},
        inside,
        np.array([e for e, _ in rows]),
        torch.tensor(ends),
        steps,
        pool.goes_on or lags < longest,
    )


def _leaves(subject: Subject, inputs: TensorDictBase) -> tuple[dict[Key, Tensor], bool]:
    """The floats that are read, as leaves, and whether other inputs are read beside them."""
    read = [key for key in tensor_keys(inputs) if not subject.reads or key in subject.reads]
    floats = [key for key in read if inputs.get(key).is_floating_point()]
    leaves = {key: inputs.get(key).detach().clone().requires_grad_() for key in floats}
    return leaves, len(floats) < len(read)


def _passed(subject: Subject, windows: _Windows, leaves: dict[Key, Tensor]) -> TensorDictBase:
    """The windows in one recurrent pass where that is the same function as acting; else step by
    step."""
    inputs = windows.inputs.copy().update(leaves)
    settings = RunSettings(grad=True)
    stepped = unroll_subject(
        subject, inputs, windows.starts, StartStates(first=windows.first), settings=settings
    )
    try:
        found = _recurrent(subject, windows, inputs, settings)
    except Exception:  # the user's module may know one mode
        return stepped
    return found if _alike(stepped, found, windows.inside) else stepped


def _recurrent(
    subject: Subject, windows: _Windows, inputs: TensorDictBase, settings: RunSettings
) -> TensorDictBase:
    """In recurrent mode, from the first step's state; at the steps behind it stands a fresh one,
    which nothing that runs over time reads."""
    rows, columns = windows.starts.shape
    batch = inputs.copy().update(subject.flag_values(windows.starts))
    index = torch.arange(rows) % max(1, len(next(iter(subject.fresh.values()))))
    for key, first in windows.first.items():
        state = subject.fresh[key][index].to(first.dtype).unsqueeze(1)
        state = state.expand(rows, columns, *first.shape[1:]).clone()
        state[:, 0] = first
        batch.set(key, state)
    shape = (*subject.lead(rows), columns) if rows > 1 else (1, columns)
    out = run_recurrent(subject, batch.reshape(shape), settings=settings)
    found = {key: out.get(key) for key in tensor_keys(out)}
    return TensorDict(found, batch_size=out.batch_size).reshape(rows, columns)


def _alike(stepped: TensorDictBase, found: TensorDictBase, inside: Tensor) -> bool:
    """Whether both give the same floats at the root."""
    keys = [
        k for k in tensor_keys(stepped) if k[0] != "next" and stepped.get(k).is_floating_point()
    ]
    for key in keys:
        other = found.get(key, None)
        if other is None or other.shape != stepped.get(key).shape:
            return False
        left, right = stepped.get(key)[inside].detach(), other[inside].detach()
        if float((left - right).abs().max()) > _SAME * max(1e-6, float(left.abs().max())):
            return False
    return bool(keys)


def _ends(
    output: MeasuredOutput, out: TensorDictBase, windows: _Windows, agent: int, agents: int
) -> list[Tensor]:
    """The asked floats of each row, ``[rows, numbers]``, of one agent."""
    rows = torch.arange(len(windows.ends))
    wide = [out.get(key)[rows, windows.ends].reshape(len(rows), agents, -1) for key in output.keys]
    return [one[:, agent] for one in wide]


def _jacobians(ends: list[Tensor], leaves: dict[Key, Tensor], generator: torch.Generator) -> Tensor:
    """``[rows, steps]``: the Frobenius norm, from random projections (Hutchinson 1989)."""
    rows, steps = next(iter(leaves.values())).shape[:2]
    total = torch.zeros(rows, steps, dtype=torch.float64)
    for _ in range(_PROJECTIONS):
        signs = [torch.randint(0, 2, one.shape, generator=generator) * 2 - 1 for one in ends]
        scalar = torch.stack([(o * s).sum() for o, s in zip(ends, signs, strict=True)]).sum()
        found = torch.autograd.grad(
            scalar, list(leaves.values()), retain_graph=True, allow_unused=True
        )
        for one in found:
            if one is not None:
                total += one.detach().double().reshape(rows, steps, -1).square().sum(-1)
    return (total / _PROJECTIONS).sqrt()
