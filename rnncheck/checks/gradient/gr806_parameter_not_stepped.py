"""No optimiser of the script has a recurrent parameter that the loss trains.

Checks
    The parameters of every recurrent module that get a gradient through the loss. Each must be in a
    parameter group of one of the optimisers that the script has made by the end of the watch, or
    that a training step of your own in a spec steps. Where what acts is another object than what is
    trained, it must have been given weights by then; of a copy of it, in a script whose lines give
    it none and may give it none later, that is a finding.

Why it matters
    What no optimiser has stays as it was initialised, however good its gradient: the rest learns
    around a memory of random weights, and the curve still rises.

Says nothing when
    the pipeline comes from a spec whose loss steps no optimiser, the script steps none of the
    loss's weights by one, the parameters are frozen (``requires_grad`` is false), or no gradient
    reaches them (GR803).

Fix
    Give the optimiser the parameters of all of it, and freeze with ``requires_grad_(False)`` what
    is not to learn.

Example
    optim = torch.optim.Adam(loss_module.parameters())     # not: head.parameters()
"""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    copied,
    each_sample,
    loss_of,
    parameters_of,
    run_loss,
)
from rnncheck.checks.evidence.trained_memory import ends_with, memory_gradients, needs_memory
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """All recurrent parameters that get a gradient."""
    loss_of(evidence)
    needs_memory(evidence)
    unstepped = evidence.pipeline.unstepped
    if unstepped is None:
        unstepped = _by_itself(evidence)
    if unstepped is None:
        raise NotApplicable("no optimiser was seen to have weights of the loss")
    sizes = memory_gradients(evidence).recurrent
    trained = [name for name, size in sizes.items() if size > 0.0]
    if not trained:
        raise NotApplicable("no recurrent parameter gets a gradient")
    left = [name for name in trained if any(ends_with(name, one) for one in unstepped)]
    if not left and evidence.pipeline.left == "":
        return Judgement((_never_given(),), len(trained), "")
    if not left and evidence.pipeline.apart:
        raise CouldNotLook(_apart(evidence.pipeline.untrained))
    findings = (_observed(left, len(trained)),) if left else ()
    note = counted(len(trained), "recurrent parameter", "are in an optimiser")
    return Judgement(findings, len(trained), note)


def _apart(updates: int) -> str:
    """What is said of a copy that acts, which was given nothing, up to the script's own end where
    it came to that with so many ``updates``."""
    said = "what acts is another object than what the optimiser steps, and was given none of its"
    if not updates:
        return f"{said} weights so far: more updates (`--updates`) may show that"
    return (
        f"{said} weights in {counted(updates, 'update')} up to the end of the script: write them"
        " into it (update_policy_weights_, load_state_dict), or train on where that is done now"
        " and then"
    )


def _never_given() -> Observation:
    return Observation(
        message=(
            "what acts is a copy of the network that is trained, and keeps its first weights: no"
            " update that was seen gave it others, and no line of the script may"
        ),
        quantity="copies that act and are never given what was learned",
        measured=1.0,
        bound=0.0,
        bound_formula="what acts is given what was learned",
        cause="the trained weights are never loaded into the copy that acts",
        fix=(
            "acting.load_state_dict(trained.state_dict()) every so many updates, or let the trained"
            " network itself act; of a collector, collector.update_policy_weights_()"
        ),
        source=Stage.COLLECT,
    )


def _by_itself(evidence: Evidence) -> frozenset[str] | None:
    """What is left out by the optimisers of a loss that steps them itself, by name; None where it
    steps none."""
    stepped = set[int]()

    def noted(optimiser: Optimizer, *_: Any) -> None:
        groups = (group["params"] for group in optimiser.param_groups)
        stepped.update(id(weight) for group in groups for weight in group)

    for _, sample in each_sample(evidence)[:1]:
        loss = copied(loss_of(evidence))
        handle = register_optimizer_step_pre_hook(noted)
        try:
            run_loss(evidence, sample, loss=loss, per_element=False)
        finally:
            handle.remove()
        held = parameters_of(loss)
        left = frozenset(name for name, weight in held if id(weight) not in stepped)
        return left if len(left) < len(held) else None
    return None


def _observed(left: list[str], of: int) -> Observation:
    return Observation(
        message=(
            f"{len(left)} of {of} recurrent parameters get a gradient, and no optimiser has them:"
            f" {', '.join(left[:4])}"
        ),
        key=left[0],
        quantity="recurrent parameters that no optimiser has",
        measured=float(len(left)),
        bound=0.0,
        bound_formula="every parameter that gets a gradient",
        cause="the optimiser was made with the parameters of other parts alone",
        fix=(
            "give the optimiser the recurrent module's parameters as well, or freeze them with"
            " requires_grad_(False) if they are not to learn"
        ),
    )


RULE = Rule(
    code="GR806",
    name="parameter-not-stepped",
    holds="every recurrent parameter with a gradient is in an optimiser",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
)
