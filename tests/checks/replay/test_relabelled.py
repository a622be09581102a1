"""RP507: episodes that are given another goal, as in hindsight experience replay."""

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
from torchrl.data import Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, StepCounter, Transform, TransformedEnv
from torchrl.modules import GRUModule, QValueModule, set_recurrent_mode


class Goal(Transform):
    def _reset(self, tensordict, reset):
        self.goal = torch.rand(1)
        return reset.set("goal", self.goal.clone())

    def _step(self, tensordict, following):
        return following.set("goal", self.goal.clone())

    def transform_observation_spec(self, spec):
        spec["goal"] = Unbounded(1)
        return spec


def memory():
    return GRUModule(input_size=5, hidden_size=12, in_key="both", out_key="seen")


def make_env():
    parts = (InitTracker(), StepCounter(max_steps=12), Goal(), memory().make_tensordict_primer())
    return TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), Compose(*parts))


def make_policy():
    both = TensorDictModule(
        lambda seen, goal: torch.cat([seen, goal], -1), ["observation", "goal"], ["both"]
    )
    head = TensorDictModule(nn.Linear(12, 2), ["seen"], ["action_value"])
    values = QValueModule(action_space="categorical")
    return TensorDictSequential(both, memory(), head, values)


def make_batch(data, relabels="goal"):
    rows = data.clone().exclude("both", "seen")
    if relabels == "goal":
        episode = rows["is_init"].long().cumsum(0)
        rows["goal"] = torch.rand(int(episode.max()) + 1)[episode]
    elif relabels == "steps":
        rows["goal"] = torch.rand(rows["goal"].shape)
    elif relabels == "observation":
        rows["observation"] = 0.5 * rows["observation"]
    return rows


class Fit(nn.Module):
    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def forward(self, td):
        with set_recurrent_mode(True):
            out = self.policy(td.copy())
        error = out["chosen_action_value"] - td["next", "reward"]
        return {"loss": error.square().mean()}


def make_loss(policy):
    return Fit(policy)
"""
STAGES = """
env: {factory: "hindsight:make_env"}
policy: {factory: "hindsight:make_policy"}
collect: {use: Collector, frames_per_batch: 96, batches: 2}
batch: {factory: "hindsight:make_batch"}
loss: {factory: "hindsight:make_loss"}
"""


@pytest.fixture
def hindsight(tmp_path: Path) -> Path:
    return written(tmp_path, "hindsight", PIPELINE, STAGES)


def test_other_outputs_are_what_another_goal_is_for(hindsight: Path) -> None:
    found = result(verified(hindsight, ("RP507",)), "RP507")
    assert found.outcome is Outcome.NOT_APPLICABLE
    assert "another goal" in found.reason


def test_without_it_the_outputs_are_the_trajectorys(hindsight: Path) -> None:
    found = result(verified(hindsight, ("RP507",), "batch.relabels=none"), "RP507")
    assert found.outcome is Outcome.PASSED


@pytest.mark.parametrize("what", ["steps", "observation"])
def test_an_input_that_moves_from_step_to_step_is_no_goal(hindsight: Path, what: str) -> None:
    assert failed(verified(hindsight, ("RP507",), f"batch.relabels={what}")) == {"RP507"}
