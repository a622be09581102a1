"""Policies of which every output is drawn: nothing tells whether they treat every step alone."""

from __future__ import annotations

from pathlib import Path

from rnncheck.results.model import Outcome
from tests.checks.verified import result, verified
from tests.checks.written import written

PIPELINE = """
import torch
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.data import Unbounded
from torchrl.envs import (
    Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TensorDictPrimer, TransformedEnv
)


def make_env():
    states = {"h": Unbounded((2, 8)), "before": Unbounded((2, 1))}
    primer = TensorDictPrimer(states, default_value=0.0, expand_specs=False)
    parts = Compose(InitTracker(), StepCounter(max_steps=10), primer)
    return TransformedEnv(SerialEnv(2, lambda: GymEnv("Pendulum-v1")), parts)


class Agent(TensorDictModuleBase):
    def __init__(self):
        super().__init__()
        self.in_keys = ["observation", "h", "before", "is_init"]
        self.out_keys = ["action", ("next", "h"), ("next", "before")]
        self.cell, self.head = nn.GRUCell(4, 8), nn.Linear(8, 1)

    def one(self, seen, h, before):
        h = self.cell(torch.cat([seen, before], -1), h)
        mean = self.head(h)
        return (mean + 0.3 * torch.randn_like(mean)).clamp(-2, 2), h

    def forward(self, td):
        if td.batch_dims < 2:
            keep = (~td["is_init"]).float()
            action, h = self.one(td["observation"], td["h"] * keep, td["before"] * keep)
        else:
            actions, states, h = [], [], td["h"][:, 0]
            for t in range(td.shape[1]):
                keep = (~td["is_init"][:, t]).float()
                step = td["observation"][:, t], h * keep, td["before"][:, t] * keep
                action, h = self.one(*step)
                actions.append(action)
                states.append(h)
            action, h = torch.stack(actions, 1), torch.stack(states, 1)
        return td.set("action", action).set(("next", "h"), h).set(("next", "before"), action)


def make_policy():
    return Agent()
"""
STAGES = """
env: {factory: "drawn:make_env"}
policy: {factory: "drawn:make_policy"}
collect: {use: Collector, frames_per_batch: 60, batches: 2}
"""


def test_a_policy_that_draws_all_it_gives_is_not_let_off(tmp_path: Path) -> None:
    found = result(verified(written(tmp_path, "drawn", PIPELINE, STAGES), ("EQ201",)), "EQ201")
    assert found.outcome is Outcome.NOT_LOOKED
    assert "no recurrent mode" not in found.reason
