"""Steps that a loss fills in by itself: it lays its batch out in rows of one trajectory each."""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import copied, loss_of, run_loss
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.pipeline.instruments.module_calls import ModuleCall, ModuleCalls


def weight_of_padding(evidence: Evidence, sample: Sample) -> tuple[int, float]:
    """How many steps recurrent modules inside the loss get that its batch has not, zeros up to the
    end of a row beside all of its data, and the largest gradient of the loss there, relative to the
    largest at the data."""
    loss = copied(loss_of(evidence))
    with ModuleCalls(probing=True) as inside:
        run = run_loss(evidence, sample, loss=loss, per_element=False)
    asked = [
        (one.probe, blank)
        for one in inside.passes
        if one.probe is not None and (blank := _blank(one, sample)) is not None
    ]
    if not asked or not run.total.requires_grad:
        return 0, 0.0
    grads = torch.autograd.grad(run.total, [probe for probe, _ in asked], allow_unused=True)
    largest = 0.0
    for (_, blank), grad in zip(asked, grads, strict=True):
        if grad is None:
            continue
        size = grad.detach().cpu().reshape(*blank.shape, -1).abs().amax(-1)
        most = float(size[~blank].max())
        largest = max(largest, float(size[blank].max()) / most if most else 0.0)
    return max(int(blank.sum()) for _, blank in asked), largest


def _blank(one: ModuleCall, sample: Sample) -> Tensor | None:
    """``[rows, steps]`` of the pass: what was filled in; None where the rest is not the data.
    Layers ahead of the module make one and the same vector of what is filled in."""
    if len(one.shape) != 2 or one.shape.numel() <= sample.valid.numel():
        return None
    x = one.x.reshape(*one.shape, -1)
    for filling in x[:, -1].unique(dim=0):
        blank: Tensor = (x == filling).all(-1).flip(1).long().cumprod(1).flip(1).bool()
        if int((~blank).sum()) == int(sample.valid.sum()):
            return blank
    return None
