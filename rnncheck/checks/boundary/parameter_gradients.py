"""Gradients of the parameters, where what is observed has none: tokens and bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.constructed_batches import constructed, runs_in_double
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.experiment import (
    ROUNDING,
    Experiment,
    alternating,
    recurrent_experiment,
)
from rnncheck.checks.evidence.random_mix import mixed
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import as_collected, as_rows
from rnncheck.checks.evidence.unrun import unrun
from rnncheck.checks.rule import CouldNotLook, NotApplicable
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.passes import RunSettings, run_recurrent
from rnncheck.pipeline.subject.subject import Subject

# Of the largest gradient, where only float32 can be run: some hundred roundings, which is what
# another order of the same sums makes. Chosen; a path over a reset is as wide as one inside.
IN_SINGLE = 1e-5


@dataclass(frozen=True)
class MovedGradient:
    """A parameter whose gradient follows inputs that it may not follow; ``size`` is relative to the
    largest gradient."""

    name: str
    size: float
    bound: float
    row: int


def whole_inputs(experiment: Experiment) -> list[Key]:
    """What is observed and has no gradient: tokens, and bytes such as pixels."""
    inputs = experiment.made.inputs
    observed = experiment.subject.changeable_inputs(inputs)
    whole = [key for key in observed if not inputs.get(key).is_floating_point()]
    return list(dict.fromkeys([*whole, *experiment.tokens()]))


def moved_from_outside(evidence: Evidence, subject: Subject) -> MovedGradient | None:
    """The gradients of some segments' outputs, with the inputs of the segments in between as they
    are and changed. NotApplicable where all inputs have gradients of their own."""
    made = constructed(evidence, subject)
    experiment = recurrent_experiment(evidence, subject, made)
    if not whole_inputs(experiment):
        raise NotApplicable(f"the {subject.stage} reads nothing but floats")
    double, alive = runs_in_double(evidence, subject, made.inputs[:1]), False
    dtype, bound = (torch.float64, ROUNDING) if double else (None, IN_SINGLE)
    asked = _Asked(evidence, subject, made, dtype)
    tokens = bool(experiment.tokens())
    for mask, others in alternating(made):
        before = asked.gradients(made.inputs, mask)
        foreign = asked.gradients(experiment.other_inputs(others, tokens=tokens), mask)
        if (found := _furthest(before, foreign))[1] > bound:
            return MovedGradient(*found, bound, int(mask.any(1).nonzero()[0]))
        if not alive:
            own = asked.gradients(experiment.other_inputs(mask, tokens=tokens), mask)
            alive = _furthest(before, own)[1] > bound
    if not alive:
        raise CouldNotLook(
            f"no change of the inputs changes the gradients of the {subject.stage}'s parameters"
        )
    return None


@dataclass(frozen=True)
class _Asked:
    """Whose gradients, on what, in which dtype (None: the module's own)."""

    evidence: Evidence
    subject: Subject
    made: Constructed
    dtype: torch.dtype | None

    def gradients(self, inputs: TensorDictBase, mask: Tensor) -> dict[str, Tensor]:
        """Of a random mix of the outputs at ``mask``, by the name of the parameter."""
        subject, network = self.subject, self.subject.copy(self.dtype)
        batch = as_collected(subject, self.made.batch(subject, inputs))
        settings = RunSettings(dtype=self.dtype, grad=True)
        try:
            out = run_recurrent(subject, batch, module=network, settings=settings)
        except Exception as error:
            raise unrun(subject, error) from error
        rows = as_rows(out, self.made.starts.shape)
        total = mixed(rows, comparable_outputs(self.evidence, subject, rows), mask)
        named = {name: p for name, p in network.named_parameters() if p.requires_grad}
        if total is None or not named:
            raise NotApplicable(
                f"no output of the {subject.stage} has a gradient, at an input or a parameter"
            )
        found = torch.autograd.grad(total, list(named.values()), allow_unused=True)
        pairs = zip(named.items(), found, strict=True)
        return {name: torch.zeros_like(p) if g is None else g for (name, p), g in pairs}


def _furthest(before: dict[str, Tensor], after: dict[str, Tensor]) -> tuple[str, float]:
    """The parameter whose gradient moved most, and by how much of the largest gradient."""
    largest = max([float(g.abs().max()) for _, g in _entries(before)], default=0.0)
    gaps = {name: float((after[name] - g).abs().max()) for name, g in _entries(before)}
    worst = max(gaps, key=lambda name: gaps[name], default="")
    return worst, gaps[worst] / largest if worst and largest else 0.0


def _entries(gradients: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    return ((name, gradient) for name, gradient in gradients.items() if gradient.numel())
