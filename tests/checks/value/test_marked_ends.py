"""VL603 where nothing that was collected ends: some steps are marked as ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.results.model import Outcome
from tests.checks.verified import result, verified
from tests.checks.written import written

PIPELINE = """
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import GRUModule, NormalParamExtractor, ProbabilisticActor, TanhNormal
from torchrl.modules import set_recurrent_mode


def memory():
    return GRUModule(input_size=3, hidden_size=12, in_key="observation", out_key="seen")


def make_env(limit=200):
    parts = (InitTracker(), StepCounter(max_steps=limit), memory().make_tensordict_primer())
    return TransformedEnv(SerialEnv(3, lambda: GymEnv("Pendulum-v1")), Compose(*parts))


def make_policy():
    value = TensorDictModule(nn.Linear(12, 1), ["seen"], ["state_value"])
    split = nn.Sequential(nn.Linear(12, 2), NormalParamExtractor())
    heads = TensorDictModule(split, ["seen"], ["loc", "scale"])
    body = TensorDictSequential(memory(), value, heads)
    bounds = {"low": -2.0, "high": 2.0}
    return ProbabilisticActor(
        body, in_keys=["loc", "scale"], distribution_class=TanhNormal, distribution_kwargs=bounds
    )


def make_advantage(policy, ends="terminated"):
    def returns(data):
        with torch.no_grad(), set_recurrent_mode(False):
            after = data["next"].select("observation", "recurrent_state")
            after["is_init"] = torch.zeros_like(data["is_init"])
            following = policy[0](after)["state_value"]
        stop = torch.zeros_like(data["next", "done"]) if ends == "none" else data["next", ends]
        target = data["next", "reward"] + 0.9 * (~stop).float() * following
        return data.set("value_target", target)

    return returns


class Fit(nn.Module):
    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def forward(self, td):
        with set_recurrent_mode(True):
            out = self.policy(td.select("observation", "recurrent_state", "is_init"))
        return {"loss": (out["state_value"] - td["value_target"]).square().mean()}


def make_loss(policy):
    return Fit(policy)
"""
STAGES = """
env: {factory: "endless:make_env"}
policy: {factory: "endless:make_policy"}
collect: {use: Collector, frames_per_batch: 30, batches: 4}
advantage: {factory: "endless:make_advantage"}
loss: {factory: "endless:make_loss"}
"""


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    return written(tmp_path, "endless", PIPELINE, STAGES)


def test_a_target_that_stops_at_a_marked_end_is_shown(endless: Path) -> None:
    found = result(verified(endless, ("VL603",)), "VL603")
    assert found.outcome is Outcome.PASSED


@pytest.mark.parametrize("ends", ["none", "truncated"])
def test_one_that_does_not_is_no_fault_before_an_episode_ends(endless: Path, ends: str) -> None:
    found = result(verified(endless, ("VL603",), f"advantage.ends={ends}"), "VL603")
    assert found.outcome is Outcome.NOT_LOOKED


def test_a_later_batch_with_an_end_is_asked_where_the_first_ones_have_none(endless: Path) -> None:
    run = verified(endless, ("VL603",), "env.limit=25")
    assert result(run, "VL603").outcome is Outcome.PASSED
