"""Running statistics are held still, however a module writes to them, and nothing else is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rnncheck.pipeline.subject.statistics import (
    counting_nothing,
    owners,
    row_free,
    statistics_held,
)


class Counting(nn.Module):
    """Writes to its buffer in one of several ways."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        now = x.detach().reshape(-1, 3).mean(0)
        if self.how == "in place":
            self.mean += 0.1 * now
            self.mean.lerp_(now, 0.5)
        elif self.how == "another":
            self.mean = 0.9 * self.mean + 0.1 * now
        elif self.how == "parts":
            self.mean[:2] = now[:2]
            self.mean[2:].copy_(now[2:])
        else:
            torch.add(self.mean, now, out=self.mean)
        self.calls += 1
        return x - self.mean


@pytest.mark.parametrize("how", ["in place", "another", "parts", "out"])
def test_what_is_held_stays_and_what_is_not_moves(how: str) -> None:
    module, x = Counting(how), torch.rand(5, 3)
    with statistics_held(owners(module, frozenset({"mean"}))), counting_nothing():
        assert torch.equal(module(x), x)
        assert torch.equal(module(x), x)
    assert (module.mean.tolist(), float(module.calls)) == ([0, 0, 0], 2)
    module(x)
    assert module.mean.any()


@pytest.mark.parametrize("how", ["in place", "another", "parts", "out"])
def test_gradients_go_back_through_several_calls(how: str) -> None:
    module, layer = Counting(how), nn.Linear(3, 3)
    held = owners(nn.Sequential(module), frozenset({"0.mean", "0.calls"}))
    with statistics_held(held), counting_nothing():
        y = layer(torch.rand(5, 3))
        for _ in range(3):
            y = layer(module(y) * (1 + module.mean))
        y.sum().backward()
    assert layer.weight.grad is not None
    assert not module.mean.any()


def test_inside_of_vmap_modules_run_as_ever() -> None:
    module = Counting("another")
    with statistics_held(owners(module, frozenset({"mean"}))), counting_nothing():
        assert torch.vmap(module)(torch.rand(4, 2, 3)).shape == (4, 2, 3)


def test_a_place_of_a_row_is_no_statistic() -> None:
    before = {"mean": torch.zeros(3), "trace": torch.zeros(2, 3), "wide": torch.zeros(1, 3)}
    x = torch.rand(2, 3)
    runs = [
        {"mean": one.mean(0), "trace": one, "wide": one, "still": torch.zeros(3)}
        for one in (x, x.flip(0))
    ]
    assert row_free(before, runs) == {"mean"}
