"""Whether the loss's graph goes back in time, seen from outside: by its gradient at the batch.

Where no module inside the loss can be watched (a reshaped batch, a cell called by hand), the
gradient at a step tells: a term at a later step reaches it through the graph alone. So it changes
with what is observed later where the graph goes back, and to the bit does not where the graph is
cut at every step. What couples steps in another way (a target made of the next step, a
normalisation) shows in the memoryless twin as well, and then nothing can be told.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import input_gradients, observed
from rnncheck.checks.evidence.burn_in_by_loss import positions
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    changed_batch,
    copied,
    loss_of,
    memoryless_batch,
    run_loss,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.numerics.difference import bits_differ

# Borders that are tried in a slice. Chosen: truncation at every second step joins one of any two
# neighbouring borders, at every fourth three of four; each costs four runs of the loss.
_BORDERS = 4


def gradient_reaches_back(evidence: Evidence, sample: Sample) -> bool | None:
    """Whether later steps change the gradient at earlier ones; None where that cannot be told."""
    since, seen = positions(sample), False
    last = int(since[sample.valid].max()) - 1
    middle = max(last // 2, 0)
    for border in range(middle, min(middle + _BORDERS, last + 1)):
        before, behind = since <= border, (since > border) & sample.valid
        moved, watched = _moves(evidence, sample, before & sample.valid, behind, twin=False)
        if not watched:
            continue
        if _moves(evidence, sample, before & sample.valid, behind, twin=True)[0]:
            return None
        if moved:
            return True
        seen = True
    return False if seen else None


def _moves(
    evidence: Evidence, sample: Sample, before: Tensor, behind: Tensor, *, twin: bool
) -> tuple[bool, bool]:
    """Whether the gradient at ``before`` changes with the observations ``behind``, and whether
    there is any; ``twin``: without memory."""
    changed = changed_batch(sample, behind, observed(evidence, sample))
    pair = (sample.td, changed)
    if twin:
        pair = (memoryless_batch(sample, sample.td), memoryless_batch(sample, changed))
    one, two = (_gradients(evidence, sample, td) for td in pair)
    moved = watched = False
    for name, old in one.items():
        if "next." in name or name not in two or two[name].shape != old.shape:
            continue
        watched = watched or bool((old[before] != 0).any())
        moved = moved or bool(bits_differ(old, two[name])[before].any())
    return moved, watched


def _gradients(evidence: Evidence, sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
    loss = loss_of(evidence)

    def total(batch: TensorDictBase) -> Tensor:
        return run_loss(evidence, sample, batch, loss=copied(loss), per_element=False).total

    with torch.enable_grad():
        return input_gradients(evidence, sample, td, total)
