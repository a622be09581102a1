"""Switches of parts of the user's own, as they were while they acted."""

from __future__ import annotations

from torch import nn

from rnncheck.watching.forms.switches import own_switches, switched, switches_of


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
