"""Switches of parts of the user's own, as they were while they acted."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rnncheck.watching.forms.switches import own_switches, switched, switched_on, switches_of


class Memory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.unroll, self.mode, self.count = False, "step", 0


def test_they_are_put_back_and_what_is_counted_is_not() -> None:
    policy = nn.Sequential(Memory(), nn.Linear(2, 2))
    memory, acting = policy[0], switches_of(policy)
    memory.unroll, memory.mode, memory.count = True, "rows", 7
    found = own_switches(policy, acting)
    assert found["0"] == {"unroll": False, "mode": "step"}
    with switched(policy, found):
        assert (memory.unroll, memory.mode, memory.count) == (False, "step", 7)
    assert (memory.unroll, memory.mode) == (True, "rows")


class Drawn(nn.Module):
    """Asks for the mode of training, to add noise."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x) if self.training else x


class Unrolled(nn.Module):
    """Asks for it, to choose the pass."""

    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(-1) if self.training else x


def test_the_mode_of_training_is_a_switch_where_nothing_is_drawn() -> None:
    found = switches_of(nn.Sequential(Drawn(), Unrolled(), nn.Dropout()))
    assert ["training" in found[path] for path in ("0", "1", "2")] == [False, True, False]


def test_what_exploration_is_scaled_by_is_no_switch_and_a_number_of_a_pass_is() -> None:
    before, now = (
        {"": {"eps": e, "steps": n, "way": w}} for e, n, w in ((1.0, 0, 0), (0.7, 90, 1))
    )
    assert switched_on(before, now) == {"": {"way": 1}}
