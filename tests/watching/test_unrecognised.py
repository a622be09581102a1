"""A memory that is trained on and on, while nothing that acts is recognised."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rnncheck.watching import observer
from rnncheck.watching.observer import Enough, Watching
from rnncheck.watching.seams.opening import opened


def trained(layer: nn.Module, steps: int, *, ends: bool = True) -> int:
    """Updates until the watch ends it, or all of them."""
    watching = Watching(3, ends=ends)
    optim = torch.optim.SGD(layer.parameters(), 0.1)
    with opened(watching):
        for number in range(steps):
            out = layer(torch.ones(2, 4))
            out.sum().backward()
            try:
                optim.step()
            except Enough:
                return number + 1
    return steps


@pytest.mark.parametrize(
    ("layer", "ends", "until"),
    [
        pytest.param(nn.GRUCell(4, 4), True, 300, id="ended"),
        pytest.param(nn.GRUCell(4, 4), False, 320, id="keep going"),
        pytest.param(nn.Linear(4, 4), True, 320, id="a network without memory, as ahead of it"),
    ],
)
def test_it_is_ended_in_time(
    monkeypatch: pytest.MonkeyPatch, layer: nn.Module, ends: bool, until: int
) -> None:
    monkeypatch.setattr(observer, "_LONGEST_LOST", -1.0)
    assert trained(layer, 320, ends=ends) == until
