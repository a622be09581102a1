"""Which backend is wrong, at which first step, in which quantity, and what it did there: float64 is
the judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

import torch
from torch import Tensor, nn

from rnncheck.checks.equivalence.backend_trials import Tried
from rnncheck.numerics.difference import features, gap
from rnncheck.numerics.tolerance import REFERENCE_FACTOR, SLACK, bound, epsilon
from rnncheck.pipeline.backends.case import Case, standard_cases
from rnncheck.pipeline.backends.facts import is_plain, rnn_facts_of, rnn_parameters
from rnncheck.pipeline.backends.precise import rounding_dtype
from rnncheck.pipeline.backends.swap import own_variant
from rnncheck.pipeline.backends.trial import Refused, TrialOutcome, from_weights, run_trial
from rnncheck.results.variant import Dtype, Variant

FLOOR = 1e-3  # of the largest gradient of a run: a tensor below it is judged on that scale
SAME = 1e-9  # two float64 computations of the same numbers, all of them at most 1
EXPLAINED = 0.1  # an explanation fits where it leaves less than this share of the difference
GATES = {"lstm": ("i", "f", "g", "o"), "gru": ("r", "z", "n")}


@dataclass(frozen=True)
class Divergence:
    """The first place where one trial leaves float64, and the worst one.

    ``quantity`` is ``output``, ``h``, ``c`` or the name of a gradient; ``row`` and ``step`` are
    those of the first divergent step (None for a parameter), ``gates`` those of a weight that are
    wrong.
    """

    quantity: str
    measured: float
    bound: float
    row: int | None = None
    step: int | None = None
    feature: tuple[int, ...] = ()
    at_reset: bool = False
    after_reset: bool = False
    gates: tuple[str, ...] = ()

    def place(self) -> str:
        """``at step 3, where a reset lies``."""
        if self.step is None:
            gates = "gate" if len(self.gates) == 1 else "gates"
            return f"in {gates} {', '.join(self.gates)}" if self.gates else ""
        behind = ", behind a reset" if self.after_reset else ""
        return f"at step {self.step}" + (", where a reset lies" if self.at_reset else behind)


def outcome_of(tried: Tried, dtype: torch.dtype = torch.float64) -> TrialOutcome:
    """What the equations give for one trial's case and weights, in ``dtype``.

    A subclass of the user's that computes something else on its pad backend (a norm on the outputs,
    say) is judged by that pass instead.
    """
    itself = tried.own and not tried.rebuilt
    if itself and not follows_equations(tried.target.module):
        return run_trial(tried.target.module, _pad(tried.target.module, dtype), tried.case)
    return from_weights(tried.weights, tried.case, dtype)


def _pad(module: nn.Module, dtype: torch.dtype) -> Variant:
    name = str(dtype).removeprefix("torch.")
    return replace(own_variant(module, "pad"), dtype=cast(Dtype, name))


@lru_cache(maxsize=16)
def follows_equations(module: nn.Module) -> bool:
    """Whether the pad backend of a module gives the cell equations; True where that cannot be
    told."""
    if is_plain(module):
        return True
    case = standard_cases(rnn_facts_of(module))[0]
    try:
        gave = run_trial(module, _pad(module, torch.float64), case).values
    except Refused:
        return True
    truth = from_weights(rnn_parameters(module), case).values
    return all(torch.allclose(gave[name], truth[name], rtol=0, atol=SAME) for name in truth)


def values_wrong(tried: Tried) -> Divergence | None:
    """The earliest divergence of outputs and end states, outputs first where several begin at one
    step."""
    if isinstance(tried.answer, Refused):
        return None
    exact, reference, dtype = _judges(tried)
    found = [
        one
        for name, value in tried.answer.values.items()
        if (one := _value_wrong(name, value, reference, exact, tried.case, dtype)) is not None
    ]
    return min(found, key=lambda one: one.step or 0, default=None)


def _judges(tried: Tried) -> tuple[TrialOutcome, TrialOutcome, torch.dtype]:
    """float64, an honest computation in the trial's own dtype, and the dtype whose rounding it may
    have."""
    dtype = rounding_dtype(tried.variant, tried.how)
    return outcome_of(tried), outcome_of(tried, dtype), dtype


def _value_wrong(
    name: str,
    value: Tensor,
    reference: TrialOutcome,
    exact: TrialOutcome,
    case: Case,
    dtype: torch.dtype,
) -> Divergence | None:
    truth = exact.values[name]
    if value.shape != truth.shape:
        return Divergence(name, float("inf"), 0.0)
    limit = bound(reference.values[name], truth, dtype)
    gaps = gap(value, truth).masked_fill(limit.lost, 0.0)
    beyond = features(gaps > limit.values).any(-1)
    if not bool(beyond.any()):
        return None
    step = int(beyond.any(0).nonzero()[0])
    row = int(beyond[:, step].nonzero()[0])
    here = gaps[row, step]
    feature = tuple(int(i) for i in torch.unravel_index(here.argmax(), here.shape))
    limits = limit.values.expand_as(gaps)
    return Divergence(
        name,
        float(here.max()),
        float(limits[row, step].max()),
        row,
        step,
        feature,
        at_reset=bool(case.starts[row, step]),
        after_reset=bool(case.starts[row, :step].any()),
    )


def step_errors(tried: Tried, quantity: str) -> tuple[Tensor, Tensor] | None:
    """``[steps]``: the largest error of a quantity against float64, and what it is held to; None
    where the trial gave nothing that could be compared."""
    if isinstance(tried.answer, Refused):
        return None
    exact, reference, dtype = _judges(tried)
    value, truth = tried.answer.values[quantity], exact.values[quantity]
    if value.shape != truth.shape:
        return None
    limit = bound(reference.values[quantity], truth, dtype)
    gaps = gap(value, truth).masked_fill(limit.lost, 0.0)
    return tuple(  # type: ignore[return-value]
        one.expand_as(gaps).transpose(0, 1).flatten(1).amax(1) for one in (gaps, limit.values)
    )


def gradients_wrong(tried: Tried) -> Divergence | None:
    """The gradient that lies furthest beyond its bound, in bounds."""
    if isinstance(tried.answer, Refused):
        return None
    exact, reference, dtype = _judges(tried)
    largest = max(float(g.double().abs().max()) for g in exact.gradients.values())
    found = []
    for name, value in tried.answer.gradients.items():
        if name.startswith("stored") and not is_plain(tried.target.module):
            continue  # a module of the user's may cut the graph at stored states on purpose
        truth = exact.gradients[name]
        scale = max(float(truth.abs().max()), FLOOR * largest, 1e-30)
        error = float(gap(reference.gradients[name], truth).max())
        limit = REFERENCE_FACTOR * error + SLACK * epsilon(dtype) * scale
        gaps = gap(value, truth)
        if float(gaps.max()) > limit:
            found.append(_gradient(name, gaps, limit, tried))
    return max(found, key=lambda one: one.measured / one.bound, default=None)


def _gradient(name: str, gaps: Tensor, limit: float, tried: Tried) -> Divergence:
    worst = float(gaps.max())
    if name != "input" and not name.startswith("stored"):
        return Divergence(name, worst, limit, gates=_gates(gaps, limit, tried))
    beyond = features(gaps > limit).any(-1)
    step = int(beyond.any(0).nonzero()[0])
    row = int(beyond[:, step].nonzero()[0])
    starts = tried.case.starts
    return Divergence(
        name, worst, limit, row, step,
        at_reset=bool(starts[row, step]), after_reset=bool(starts[row, :step].any()),
    )  # fmt: skip


def _gates(gaps: Tensor, limit: float, tried: Tried) -> tuple[str, ...]:
    """The gates whose rows of a weight or bias are wrong; empty where they all are."""
    names = GATES[tried.facts.kind]
    if gaps.shape[0] != len(names) * tried.facts.hidden_size:
        return ()
    blocks = gaps.reshape(len(names), -1).amax(1) > limit
    wrong = tuple(name for name, bad in zip(names, blocks.tolist(), strict=True) if bad)
    return wrong if len(wrong) < len(names) else ()


def explain(tried: Tried) -> str:
    """What the backend did instead, where one of the usual mistakes gives what it gave."""
    if isinstance(tried.answer, Refused) or not follows_equations(tried.target.module):
        return ""
    truth = outcome_of(tried)
    gave = tried.answer.values["output"]
    for said, mistake in MISTAKES.items():
        changed = mistake(tried.case)
        mistaken = from_weights(tried.weights, changed).values["output"]
        missed, off = gap(gave, mistaken), gap(gave, truth.values["output"])
        moved = gap(mistaken, truth.values["output"])
        if float(moved.max()) > 0 and float(missed.max()) < EXPLAINED * float(off.max()):
            return said
    return ""


def _inside(case: Case) -> Tensor:
    """Resets behind step 0."""
    return case.starts & (torch.arange(case.starts.shape[1]) > 0)


def _last_dropped(case: Case) -> Case:
    starts = case.starts.clone()
    starts[:, -1] = False
    return replace(case, starts=starts)


def _shifted(case: Case, by: int) -> Case:
    starts = case.starts.roll(by, 1)
    return replace(case, starts=starts)


def _from(case: Case, change: Callable[[Tensor], Tensor]) -> Case:
    """Other states at the resets behind step 0."""
    inside = _inside(case).reshape(*case.starts.shape, 1, 1)
    return replace(
        case, stored=tuple(torch.where(inside, change(part), part) for part in case.stored)
    )


MISTAKES: Mapping[str, Callable[[Case], Case]] = {
    "it ignores the resets": lambda case: replace(case, starts=case.starts & ~_inside(case)),
    "it drops a reset at the last step": _last_dropped,
    "it resets one step late": lambda case: _shifted(case, 1),
    "it resets one step early": lambda case: _shifted(case, -1),
    "it goes on from zero at a reset, not from the state stored there": lambda case: _from(
        case, torch.zeros_like
    ),
    "it takes the state stored one step before a reset": lambda case: _from(
        case, lambda part: part.roll(1, 1)
    ),
    "it takes the state stored one step after a reset": lambda case: _from(
        case, lambda part: part.roll(-1, 1)
    ),
    "it takes a row's first stored state at every reset": lambda case: _from(
        case, lambda part: part[:, :1].expand_as(part)
    ),
    "it begins from zero, not from the stored state": lambda case: replace(
        case, stored=tuple(torch.zeros_like(part) for part in case.stored)
    ),
}


def by_variant(tried: list[Tried]) -> Iterator[tuple[str, list[Tried]]]:
    """Trials by stage, path and variant, in order."""
    groups: dict[tuple[str, str, str], list[Tried]] = {}
    for one in tried:
        key = (str(one.target.stage), one.target.path, one.variant.label)
        groups.setdefault(key, []).append(one)
    yield from ((key[2], members) for key, members in groups.items())
