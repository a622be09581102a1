"""NaN or inf in loss or gradient.

Checks
    The loss of each training batch, its parts, and the gradient of every trained parameter.

Why it matters
    One NaN gradient makes every weight NaN with the next optimiser step.

Says nothing when
    the spec has no loss, or the collected data is NaN already (CL409).

Fix
    Look for log(0), sqrt(0), 0/0 in the named part: add an epsilon inside, or mask before the
    operation, not after.

Example
    torch.where(mask, x, 1.0).log()      # not torch.where(mask, x.log(), 0.0)
"""

from __future__ import annotations

import torch

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    copied,
    each_sample,
    loss_of,
    parameters_of,
    run_loss,
)
from rnncheck.checks.rule import Judgement, Observation, Rule
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """Values, then gradients."""
    compared = 0
    for number, sample in each_sample(evidence):
        loss = copied(loss_of(evidence))
        found = run_loss(evidence, sample, loss=loss, per_element=False)
        bad = [name for name, value in found.parts.items() if not bool(value.isfinite().all())]
        named = parameters_of(loss)
        compared += len(found.parts) + len(named)
        if not bad and found.total.requires_grad and named:
            grads = torch.autograd.grad(found.total, [p for _, p in named], allow_unused=True)
            pairs = zip(named, grads, strict=True)
            bad = [n for (n, _), g in pairs if g is not None and not bool(g.isfinite().all())]
        if bad:
            return Judgement((_observed(number, bad),), compared)
    return Judgement((), compared, f"{compared} losses and gradients are finite")


def _observed(number: int, bad: list[str]) -> Observation:
    return Observation(
        message=f"NaN or inf in {', '.join(bad[:4])}",
        key=bad[0],
        quantity="losses and gradients that are not finite",
        measured=float(len(bad)),
        on=f"training batch {number}",
        cause=(
            "a logarithm, root or quotient of zero, or a masked value whose gradient is not masked"
        ),
        fix="mask before the operation, not after it",
    )


RULE = Rule(
    code="GR802",
    name="not-finite",
    holds="loss and gradients are finite",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
)
