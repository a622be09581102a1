"""No gradient reaches earlier steps of the segment.

Checks
    What the recurrent modules give inside the loss is noted while the loss runs on a training
    batch. The gradient of their outputs at every second step of the slices is taken at their
    inputs: it must not be zero at the steps in between, one step earlier. The same is asked of
    policy and critic alone, in recurrent mode over the head of an episode, where a nudge of the
    earlier inputs does move the later outputs.

Why it matters
    With the graph cut at every step the recurrent weights learn from one step only: the policy
    carries a memory that it never learns to use.

Says nothing when
    the loss runs no recurrent module that can be seen, slices have a single step, or nothing has a
    gradient there. A graph that is cut every k-th step, k > 1, on purpose passes. Recurrent modules
    without a trained parameter get a warning, those that read tokens nothing: tokens have no
    gradient. Where the unroll alone has the gradient, EQ205 says so.

Fix
    Run the policy in recurrent mode inside the loss, and do not detach the state between steps.

Example
    with set_recurrent_mode(True): out = policy(batch)     # one graph over the slice
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import segments_of
from rnncheck.checks.evidence.burn_in_by_loss import positions
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    copied,
    each_sample,
    loss_of,
    needs_memory,
    needs_memory_inside,
    run_loss,
)
from rnncheck.checks.evidence.loss_passes import blocked, blocks_of, in_rows
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.gradient.loss_graph import gradient_reaches_back
from rnncheck.checks.gradient.through_time import reaches_back, reads_tokens
from rnncheck.checks.rule import (
    CouldNotLook,
    Deferred,
    Judgement,
    NotApplicable,
    Observation,
    Rule,
    Unanswered,
)
from rnncheck.pipeline.instruments.module_calls import ModuleCall, ModuleCalls
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """Every pass with a graph in every training batch, then policy and critic alone."""
    needs_memory(evidence)
    within = _in_the_loss(evidence)
    if within.findings:
        return within
    alone = _alone(evidence)
    if alone.findings or not within.unanswered:
        return replace(alone, compared=within.compared + alone.compared, unanswered=())
    nothing_inside = all(isinstance(why, NotApplicable) for why in within.unanswered)
    return alone if nothing_inside else within


def _in_the_loss(evidence: Evidence) -> Judgement:
    compared = 0
    try:
        loss_of(evidence)
        for number, sample in each_sample(evidence):
            back = steps_back(evidence, sample)
            if back is None:
                back = gradient_reaches_back(evidence, sample)
            if back is None:
                continue
            compared += 1
            if not back:
                needs_memory_inside(evidence, sample)
                return Judgement((_observed_in_loss(number, sample),), compared)
        if not compared:
            raise CouldNotLook(
                "no recurrent module runs in the loss on the batch's own shape, and the gradient at"
                " the batch does not tell"
            )
    except Unanswered as why:
        return Judgement((), unanswered=(why,))
    return Judgement((), compared)


def _alone(evidence: Evidence) -> Judgement:
    """Policy and critic in recurrent mode."""
    compared, untold = 0, list[Unanswered]()
    for subject in (evidence.policy, evidence.critic):
        if subject is None or not subject.carry:
            continue
        try:
            back, trained = reaches_back(evidence, subject)
            if not back and evidence.finds("EQ205"):
                raise Deferred("recurrent mode's gradients are not the unroll's", "EQ205")
        except Unanswered as why:
            untold.append(why)
            continue
        compared += 1
        if not back:
            severity = Severity.ERROR if trained else Severity.WARNING
            return Judgement((_observed_alone(subject),), compared, severity=severity)
    note = "gradients reach earlier steps"
    return Judgement((), compared, note, unanswered=() if compared else tuple(untold))


def steps_back(evidence: Evidence, sample: Sample) -> bool | None:
    """Whether any pass has a gradient one step back; None where none has a gradient at the step
    itself."""
    with ModuleCalls(probing=True) as inside:
        run_loss(evidence, sample, loss=copied(loss_of(evidence)), per_element=False)
    rows = in_rows(evidence, sample)
    local, earlier = False, False
    for parity in (1, 0):
        at = (positions(sample) % 2 == parity) & sample.valid & sample.follows
        before = torch.zeros_like(at)
        before[:, :-1] = at[:, 1:]
        for found in inside.passes:
            grad = _gradient(found, sample, at, rows=rows)
            if grad is not None:
                here = bool((grad * at.unsqueeze(-1) != 0).any())
                local = local or (here and not reads_tokens(found))
                earlier = earlier or bool((grad * before.unsqueeze(-1) != 0).any())
    return earlier if local or earlier else None


def _gradient(found: ModuleCall, sample: Sample, at: Tensor, *, rows: bool) -> Tensor | None:
    """The gradient of the pass's outputs at ``at`` with respect to its inputs,
    ``[blocks, rows, steps, features]``."""
    y, probe, count = found.y, found.probe, blocks_of(found, sample, rows=rows)
    if probe is None or not y.requires_grad or not count:
        return None
    given = blocked(y, count, sample)
    weight = torch.randn(given.shape, generator=torch.Generator().manual_seed(4)).to(given.dtype)
    total = (given * weight * at.unsqueeze(-1)).sum()
    (grad,) = torch.autograd.grad(total, [probe], retain_graph=True, allow_unused=True)
    return None if grad is None else blocked(grad, count, sample)


def _observed_in_loss(number: int, sample: Sample) -> Observation:
    return _observed(
        "inside the loss no gradient reaches the step before: the graph is cut at every step",
        on=f"training batch {number}, {int(segments_of(sample).max()) + 1} segments in a row",
        cause=(
            "the graph is cut at every step: sequential mode in the loss, or a state that is"
            " detached"
        ),
        fix="run the policy in recurrent mode inside the loss, without detach() between steps",
        stage=Stage.LOSS,
    )


def _observed_alone(subject: Subject) -> Observation:
    return _observed(
        f"the {subject.stage} in recurrent mode: no gradient reaches the step before, though a"
        " nudge of what came before moves the output",
        on="the longest head of an episode",
        cause="the state is detached at every step, in both modes",
        fix=(
            "carry the state from step to step without detach(); cut only every k-th step, k > 1,"
            " on purpose"
        ),
        stage=subject.stage,
    )


def _observed(message: str, *, on: str, cause: str, fix: str, stage: Stage) -> Observation:
    return Observation(
        stage=stage,
        message=message,
        quantity="steps back that a gradient reaches",
        measured=0.0,
        on=on,
        bound=1.0,
        bound_formula="at least one",
        cause=cause,
        fix=fix,
    )


RULE = Rule(
    code="GR801",
    name="graph-cut",
    holds="gradients reach earlier steps",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY,),
)
