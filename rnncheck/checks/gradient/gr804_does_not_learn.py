"""Some optimiser steps on one batch do not lower the loss.

Checks
    A copy of the loss is trained with Adam for a few steps on one training batch, with one random
    seed throughout, while every network call that gets no gradient (a target) is held as it was.
    The loss must fall below where it began, at some step. Where it does not, a small step against
    its gradient must not raise it by about as much as the gradient promises to lower it: more or
    less than that comes of a target that moves with the weights.

Why it matters
    A wrong sign, a frozen trunk, a loss that is constant: nothing raises, and the curve is flat for
    a day.

Says nothing when
    the loss holds no trained parameter, its gradient is zero on this batch, or its target moves
    with the weights (TD without a target network).

Fix
    Look at the loss's sign, at what is detached, and at which parameters reach the optimiser.

Example
    loss = -(log_prob * advantage).mean()
"""

from __future__ import annotations

import math

import torch

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    copied,
    each_sample,
    loss_of,
    parameters_of,
    run_loss,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.instruments.target_calls import Calls, idle
from rnncheck.results.model import Severity, Stage

_STEPS = 12
EXACT = 0.5  # of what the gradient promises: a small step is not exactly linear
UPHILL = (-1.1, -0.9)  # a gradient with the wrong sign gives -1, an exact one 1
SMALL = 1e-3  # length of the step that is tried
RATES = (1e-3, 1e-4)  # a smaller rate is tried before the loss is blamed


def run(evidence: Evidence) -> Judgement:
    """One batch, a few steps."""
    loss_of(evidence)
    for number, sample in each_sample(evidence)[:1]:
        for rate in RATES:
            curve = train(evidence, sample, rate)
            if min(curve[1:]) < curve[0]:
                return Judgement(
                    (), _STEPS, f"the loss falls from {curve[0]:.3g} to {min(curve):.3g}"
                )
        ratio = descent(evidence, sample)
        if ratio > EXACT:
            return Judgement((), _STEPS, "a small step against the gradient lowers the loss")
        if math.isfinite(ratio) and not UPHILL[0] <= ratio <= UPHILL[1]:
            raise NotApplicable(
                "the loss follows a target that moves with the weights (a semi-gradient)"
            )
        return Judgement((_observed(number, curve, ratio),), _STEPS)
    raise NotApplicable("there is no training batch")


def train(evidence: Evidence, sample: Sample, rate: float) -> list[float]:
    """The loss before each of ``_STEPS`` Adam steps on one batch; calls without a gradient stay as
    they were."""
    loss = copied(loss_of(evidence))
    parameters = [p for _, p in parameters_of(loss)]
    if not parameters:
        raise CouldNotLook("the loss holds no trained parameter")
    old = {p.data_ptr(): p.detach().clone() for p in parameters}
    optimiser, curve, held = torch.optim.Adam(parameters, lr=rate), list[float](), frozenset[int]()
    for number in range(_STEPS):
        with Calls(held, old) as calls:
            total = run_loss(evidence, sample, loss=loss, per_element=False).total
        curve.append(float(total.detach()))
        if not total.requires_grad:
            raise CouldNotLook("the loss has no gradient")
        held = held if number else idle(calls, total)
        optimiser.zero_grad()
        total.backward()
        if not any(p.grad is not None and bool((p.grad != 0).any()) for p in parameters):
            raise CouldNotLook("the loss's gradient is zero on this batch")
        optimiser.step()
    return curve


def descent(evidence: Evidence, sample: Sample) -> float:
    """How much a small step against the gradient lowers the loss, over what the gradient promises
    (1 if exact)."""
    loss = copied(loss_of(evidence))
    parameters = [p for _, p in parameters_of(loss)]
    with Calls() as calls:
        total = run_loss(evidence, sample, loss=loss, per_element=False).total
    held = idle(calls, total)
    found = torch.autograd.grad(total, parameters, allow_unused=True)
    grads = [
        torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)
    ]
    square = sum(float(g.double().pow(2).sum()) for g in grads)
    step = SMALL / math.sqrt(max(square, 1e-30))
    old = {p.data_ptr(): p.detach().clone() for p in parameters}
    with torch.no_grad():
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.sub_(grad, alpha=step)
    with Calls(held, old):
        after = run_loss(evidence, sample, loss=loss, per_element=False).total
    return (float(total.detach()) - float(after.detach())) / max(step * square, 1e-30)


def _observed(number: int, curve: list[float], ratio: float) -> Observation:
    return Observation(
        message=f"{_STEPS} Adam steps on one batch do not lower the loss",
        quantity="lowest loss above the first",
        measured=min(curve[1:]) - curve[0],
        on=f"training batch {number}",
        bound_formula="below 0 at some step",
        cause=(
            "the gradient does not belong to this loss: a wrong sign, a detached part, a target"
            " that moves along"
        ),
        fix="compare the loss's gradient with a finite difference, and detach the target",
        details={
            "descent over promise": f"{ratio:.2f}",
            "curve": ", ".join(f"{value:.4g}" for value in curve),
        },
    )


RULE = Rule(
    code="GR804",
    name="does-not-learn",
    holds="optimiser steps lower the loss",
    severity=Severity.WARNING,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
    dear=True,
)
