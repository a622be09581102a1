"""No gradient reaches earlier steps of the segment.

Checks
    What the recurrent modules give inside the loss is noted while the loss runs on a training
    batch. The gradient of their outputs at every second step of the slices is taken at their
    inputs: it must not be zero at the steps in between, one step earlier.

Why it matters
    With the graph cut at every step the recurrent weights learn from one step only: the policy
    carries a memory that it never learns to use.

Says nothing when
    the loss runs no recurrent module that can be seen, slices have a single step, or nothing has a
    gradient there. A graph that is cut every k-th step, k > 1, on purpose passes.

Fix
    Run the policy in recurrent mode inside the loss, and do not detach the state between steps.

Example
    with set_recurrent_mode(True): out = policy(batch)     # one graph over the slice
"""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import segments_of
from rnncheck.checks.evidence.burn_in_by_loss import positions
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import copied, each_sample, loss_of, needs_memory, run_loss
from rnncheck.checks.evidence.loss_passes import blocked, blocks_of
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule
from rnncheck.pipeline.instruments.module_calls import ModuleCall, ModuleCalls
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """Every pass with a graph, in every training batch."""
    loss_of(evidence)
    needs_memory(evidence)
    compared = 0
    for number, sample in each_sample(evidence):
        back = steps_back(evidence, sample)
        if back is None:
            continue
        compared += 1
        if not back:
            return Judgement((_observed(number, sample),), compared)
    if not compared:
        raise CouldNotLook(
            "no recurrent module could be watched inside the loss, or nothing has a gradient there"
        )
    return Judgement((), compared, "the loss's graph reaches earlier steps")


def steps_back(evidence: Evidence, sample: Sample) -> bool | None:
    """Whether any pass has a gradient one step back; None where none has a gradient at the step
    itself."""
    with ModuleCalls(probing=True) as inside:
        run_loss(evidence, sample, loss=copied(loss_of(evidence)), per_element=False)
    odd = (positions(sample) % 2 == 1) & sample.valid & sample.follows
    even = torch.zeros_like(odd)
    even[:, :-1] = odd[:, 1:]
    local, earlier = False, False
    for found in inside.passes:
        grad = _gradient(found, sample, odd)
        if grad is not None:
            local = local or bool((grad * odd.unsqueeze(-1) != 0).any())
            earlier = earlier or bool((grad * even.unsqueeze(-1) != 0).any())
    return earlier if local else None


def _gradient(found: ModuleCall, sample: Sample, at: Tensor) -> Tensor | None:
    """The gradient of the pass's outputs at ``at`` with respect to its inputs,
    ``[blocks, rows, steps, features]``."""
    y, probe, count = found.y, found.probe, blocks_of(found, sample)
    if probe is None or not y.requires_grad or not count:
        return None
    given = blocked(y, count, sample)
    weight = torch.randn(given.shape, generator=torch.Generator().manual_seed(4)).to(given.dtype)
    total = (given * weight * at.unsqueeze(-1)).sum()
    (grad,) = torch.autograd.grad(total, [probe], retain_graph=True, allow_unused=True)
    return None if grad is None else blocked(grad, count, sample)


def _observed(number: int, sample: Sample) -> Observation:
    return Observation(
        message=(
            "inside the loss no gradient reaches the step before: the graph is cut at every step"
        ),
        quantity="steps back that a gradient reaches",
        measured=0.0,
        on=f"training batch {number}, {int(segments_of(sample).max()) + 1} segments in a row",
        bound=1.0,
        bound_formula="at least one",
        cause=(
            "the graph is cut at every step: sequential mode in the loss, or a state that is"
            " detached"
        ),
        fix="run the policy in recurrent mode inside the loss, without detach() between steps",
    )


RULE = Rule(
    code="GR801",
    name="graph-cut",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
)
