"""Distances that saturate, as squared errors for a while."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from rnncheck.pipeline.instruments.distances import SquaredErrors

LOSSES = [nn.SmoothL1Loss(), nn.HuberLoss(delta=0.5), nn.L1Loss(), nn.SmoothL1Loss(beta=2.0)]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_they_are_squared_and_put_back(loss: nn.Module, reduction: str) -> None:
    value, target = torch.tensor([0.0, 1.0, 4.0]), torch.tensor([3.0, 1.5, -6.0])
    loss.reduction = reduction
    own = loss(value, target)
    with SquaredErrors() as errors:
        assert torch.equal(
            loss(value, target), functional.mse_loss(value, target, reduction=reduction)
        )
    assert errors.used
    assert torch.equal(loss(value, target), own)


def test_another_loss_is_left_alone() -> None:
    value, target = torch.randn(4), torch.randn(4)
    own = functional.mse_loss(value, target)
    with SquaredErrors() as errors:
        assert torch.equal(functional.mse_loss(value, target), own)
    assert not errors.used
