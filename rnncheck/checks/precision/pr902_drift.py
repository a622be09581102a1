"""The error against float64 grows past the budget over the horizon, with the curve.

Checks
    Each recurrent module runs over 64 steps of episode heads without a reset, as it is in both
    modes and, in float64, with the products of ieee, tf32 and tf32x3. The error of its outputs and
    states against float64 is taken at every step. A tensor-core mode or a compute dtype that was
    asked for is judged by its emulation; with CUDA the real kernels are beside it. A curve that
    grows exponentially throughout is continued to 256 steps, or to the longest recorded trajectory.

Why it matters
    A recurrence that amplifies small differences gives other outputs in training than those that
    were acted on, and on another machine, backend or batch size than on this one: the last bit of
    the first step decides.

Says nothing when
    the curve stays within the budget (verify.drift, 0.01 of the output's size), or is level: an
    error that a precision makes in each step and that the module forgets again is the price of that
    precision. Growth in proportion to the number of steps is a memory that forgets nothing, and no
    fault.

Fix
    Smaller recurrent weights (an orthogonal start with gain 1, weight decay, gradient clipping),
    gates or a normalisation that contract, shorter stretches, or a higher precision.

Example
    nn.init.orthogonal_(cell.weight_hh, gain=1.0)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.precision.streams import STREAM_STEPS, Stream, Written, errors, rerun, streams
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule, Unanswered
from rnncheck.numerics.rounding import BFLOAT16, IEEE, TF32, TF32X3, ProductPrecision
from rnncheck.pipeline.backends.precision import TENSOR_CORES, asked_precision
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.results.model import Severity, Stage

GROWTH = 100.0  # times the first step's error: more than the 64 of a memory that forgets nothing
EXPONENTIAL = 3.0  # growth from every quarter of the steps to the next; a cubic law ends below it
_HORIZON = (
    4 * STREAM_STEPS
)  # to which exponential growth is continued, or to the longest recorded trajectory
_SHOWN = (1, 4, 8, 16, 32, 64)  # steps at which a curve is shown
EMULATED: tuple[ProductPrecision, ...] = (IEEE, TF32X3, TF32)


@dataclass(frozen=True)
class Curve:
    """Error per step of one way of computing a module, relative to the size of the key that is
    worst at the end."""

    stream: Stream
    name: str
    key: Key
    values: Tensor  # [STEPS]
    judged: bool

    @property
    def quarters(self) -> list[float]:
        """The level of each quarter: its median, which one flipped tie does not move."""
        return [float(quarter.median()) for quarter in self.values.chunk(4)]

    @property
    def late(self) -> float:
        """The level at the end."""
        return self.quarters[-1]

    @property
    def first(self) -> float:
        """The first step's error, at least a rounding of float32."""
        return max(float(self.values[0]), torch.finfo(torch.float32).eps / 4)

    @property
    def shown(self) -> str:
        """``step 1: 1e-08, 4: 2e-08, ...``, each over the steps since half of its number."""
        return "step " + ", ".join(f"{n}: {self._around(n):.0e}" for n in _SHOWN)

    def _around(self, step: int) -> float:
        return float(self.values[step // 2 : step].square().mean().sqrt())

    @property
    def rate(self) -> float:
        """The least growth from one quarter to the next, where that is exponential; else 1."""
        levels = [max(level, self.first) for level in self.quarters]
        least = min(after / before for before, after in itertools.pairwise(levels))
        return least if least >= EXPONENTIAL else 1.0

    def reaches(self, budget: float, horizon: int) -> int:
        """The step at which the curve is past the budget and still growing; 0 where it is not, up
        to ``horizon``."""
        limit = max(budget, GROWTH * self.first)
        if self.late >= limit:
            return STREAM_STEPS
        if self.rate == 1.0 or limit > 1.0:  # an error is not larger than what it is an error of
            return 0
        further = math.ceil(math.log(limit / self.late) / math.log(self.rate) * STREAM_STEPS / 4)
        return STREAM_STEPS + further if STREAM_STEPS + further <= horizon else 0


def run(evidence: Evidence) -> Judgement:
    """Every recurrent module, in every way that it is computed or was asked for."""
    budget, horizon = evidence.pipeline.spec.verify.drift, longest(evidence)
    found = [_Followed(stream) for stream in streams(evidence)]
    judged = [curve for group in found for curve in group.judged]
    if not judged:
        raise CouldNotLook("no output has an error that could be followed")
    findings = []
    for group in found:
        bad = [one for one in group.judged if one.reaches(budget, horizon)]
        if bad:
            worst = max(bad, key=lambda one: one.late)
            findings.append(_observed(evidence, worst, group.every, horizon))
    top = max(found, key=lambda group: max((one.late for one in group.judged), default=0.0))
    said = ", ".join(f"{one.name} {one.late:.0e}" for one in top.every)
    note = f"error after {STREAM_STEPS} steps of {top.stream.name}: {said}"
    return Judgement(tuple(findings), len(judged) * STREAM_STEPS, note)


def longest(evidence: Evidence) -> int:
    """How far a growing curve is continued."""
    try:
        return max([_HORIZON, *(one.steps for one in evidence.recording.trajectories())])
    except Unanswered:
        return _HORIZON


def curves(stream: Stream) -> list[Curve]:
    """The module as it runs, and its emulations."""
    return _Followed(stream).every


@dataclass(frozen=True)
class _Followed:
    """One module; emulations that nobody asked for are made where they are shown."""

    stream: Stream

    @cached_property
    def judged(self) -> list[Curve]:
        """As it acts and trains, and emulated as it was asked for."""
        stream = self.stream
        found = [*_curve(stream, "as it acts", stream.steps.wrote, self._exact, judged=True)]
        if stream.whole is not None:
            again = rerun(stream, stream.whole.read, chained=True)
            found += _curve(stream, "in recurrent mode", stream.whole.wrote, again, judged=True)
        return [*found, *(one for asked in self._asked for one in self._emulated(asked))]

    @cached_property
    def every(self) -> list[Curve]:
        """These, and the other emulations."""
        others = (one for one in EMULATED if one not in self._asked)
        return [*self.judged, *(curve for one in others for curve in self._emulated(one))]

    @cached_property
    def _exact(self) -> list[Written]:
        return rerun(self.stream, self.stream.steps.read, chained=True)

    @cached_property
    def _asked(self) -> list[ProductPrecision]:
        """The narrower precision that the module was asked for."""
        module, device = self.stream.carrier.module, self.stream.device
        asked = asked_precision(module, (), device, recurrent=True).name
        narrow = (*TENSOR_CORES, BFLOAT16.name)
        return [one for one in (*EMULATED, BFLOAT16) if one.name == asked and asked in narrow]

    def _emulated(self, precision: ProductPrecision) -> Iterator[Curve]:
        rounded = rerun(self.stream, self.stream.steps.read, precision=precision, chained=True)
        name, judged = f"emulated {precision.name}", precision in self._asked
        return _curve(self.stream, name, rounded, self._exact, judged=judged)


def _curve(
    stream: Stream, name: str, written: list[Written], exact: list[Written], *, judged: bool
) -> Iterator[Curve]:
    found = errors(written, exact)
    if found:
        key = max(found, key=lambda one: float(found[one][-STREAM_STEPS // 4 :].median()))
        yield Curve(stream, name, key, found[key], judged)


def _observed(evidence: Evidence, curve: Curve, group: list[Curve], horizon: int) -> Observation:
    budget = evidence.pipeline.spec.verify.drift
    step = curve.reaches(budget, horizon)
    when = (
        f"is past it within {STREAM_STEPS} steps"
        if step == STREAM_STEPS
        else f"reaches it at step {step}"
    )
    return Observation(
        stage=curve.stream.subject.stage,
        message=(
            f"{curve.stream.name} {curve.name}: its error against float64 grows"
            f" {curve.late / curve.first:.0e} times in {STREAM_STEPS} steps and {when} (budget"
            f" {budget:g})"
        ),
        key=dotted(curve.key),
        quantity=(
            f"error of {dotted(curve.key)} against float64 over steps {STREAM_STEPS * 3 // 4} to "
            f"{STREAM_STEPS}, relative to its size"
        ),
        measured=curve.late,
        on=f"{STREAM_STEPS} steps of episode heads without a reset",
        bound=budget,
        bound_formula=(
            "verify.drift, at the end or where exponential growth reaches it within "
            f"{horizon} steps"
        ),
        passing_bound=max(curve.late, budget),
        cause="the recurrence amplifies small differences: it is chaotic",
        fix=(
            "smaller recurrent weights, gates or a normalisation that contract, or shorter"
            " stretches"
        ),
        details={one.name: one.shown for one in group},
    )


RULE = Rule(
    code="PR902",
    name="drift",
    holds="the error against float64 stays within the budget",
    severity=Severity.WARNING,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
    as_set=True,
    dear=True,
)
