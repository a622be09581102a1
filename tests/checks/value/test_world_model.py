"""Losses that predict rewards: a world model makes no target, and may clamp a part of its loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.results.model import Outcome
from tests.checks.verified import failed, result, verified
from tests.checks.written import written

PIPELINE = """
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import Compose, GymEnv, InitTracker, StepCounter, TransformedEnv
from torchrl.modules import GRUModule, QValueModule, set_recurrent_mode


def memory():
    return GRUModule(input_size=4, hidden_size=12, in_key="observation", out_key="seen")


def make_env():
    parts = Compose(InitTracker(), StepCounter(max_steps=12), memory().make_tensordict_primer())
    return TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), parts)


def make_policy():
    head = TensorDictModule(nn.Linear(12, 2), ["seen"], ["action_value"])
    return TensorDictSequential(memory(), head, QValueModule(action_space="categorical"))


class Model(nn.Module):
    def __init__(self, policy, bootstraps, free, cut):
        super().__init__()
        self.policy, self.bootstraps, self.free, self.cut = policy, bootstraps, free, cut
        self.reward = nn.Sequential(nn.Linear(12 + 4, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, td):
        with set_recurrent_mode(True):
            out = self.policy(td.copy())
        seen = out["seen"].detach() if self.cut or self.free else out["seen"]
        # the state, and what it leads to
        given = torch.cat([seen, td["next", "observation"]], -1)
        paid = td["next", "reward"]
        if self.bootstraps:
            with torch.no_grad():
                paid = paid + 0.9 * self.reward(given)
            given = torch.cat([seen, td["observation"]], -1)
        found = {"loss_reward": (self.reward(given) - paid).square().mean()}
        if self.free:
            kept = torch.zeros_like(out["seen"]) if self.cut else out["seen"]
            found["loss_size"] = kept.square().mean().clamp(min=self.free)
        return found


def make_loss(policy, bootstraps=False, free=0.0, cut=False):
    return Model(policy, bootstraps, free, cut)


def make_batch(data):
    return data.reshape(4, -1)
"""
STAGES = """
env: {factory: "world:make_env"}
policy: {factory: "world:make_policy"}
collect: {use: Collector, frames_per_batch: 96, batches: 2}
batch: {factory: "world:make_batch"}
loss: {factory: "world:make_loss"}
"""


@pytest.fixture
def world(tmp_path: Path) -> Path:
    return written(tmp_path, "world", PIPELINE, STAGES)


def test_a_predicted_reward_is_no_target(world: Path) -> None:
    found = result(verified(world, ("VL603",)), "VL603")
    assert found.outcome is Outcome.NOT_APPLICABLE
    assert "predicts rewards" in found.reason


def test_a_target_of_the_next_observation_looks_over_the_end(world: Path) -> None:
    assert failed(verified(world, ("VL603",), "loss.bootstraps=true")) == {"VL603"}


def test_a_clamped_part_trains_with_other_weights(world: Path) -> None:
    run = verified(world, ("GR803",), "loss.free=0.4")
    assert result(run, "GR803").outcome is Outcome.PASSED


def test_a_part_that_is_cut_trains_with_none(world: Path) -> None:
    run = verified(world, ("GR803",), "loss.cut=true")
    assert failed(run) == {"GR803"}
