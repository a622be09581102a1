"""Targets over several steps: next observations are those behind the last of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.results.model import Outcome, Severity
from tests.checks.verified import failed, result, verified
from tests.checks.written import written

PIPELINE = """
from copy import deepcopy

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer
from torchrl.envs import Compose, GymEnv, InitTracker, MultiStepTransform, StepCounter
from torchrl.envs import TransformedEnv
from torchrl.modules import GRUModule, QValueModule, set_recurrent_mode


def memory():
    return GRUModule(input_size=4, hidden_size=12, in_key="observation", out_key="seen")


def make_env():
    parts = Compose(InitTracker(), StepCounter(max_steps=15), memory().make_tensordict_primer())
    return TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), parts)


def make_policy():
    head = TensorDictModule(nn.Linear(12, 2), ["seen"], ["action_value"])
    return TensorDictSequential(memory(), head, QValueModule(action_space="categorical"))


def make_replay(keep=("done", "truncated")):
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(1000),
        sampler=SliceSampler(
            slice_len=8, traj_key=("collector", "traj_ids"), strict_length=False
        ),
        transform=MultiStepTransform(n_steps=3, gamma=0.95, done_keys=list(keep)),
        batch_size=64,
    )


class Returns(nn.Module):
    def __init__(self, net, late):
        super().__init__()
        self.net, self.late = net, late
        self.target = deepcopy(net).requires_grad_(False)

    def forward(self, batch):
        with set_recurrent_mode(True):
            values = self.net(batch.select("observation", "recurrent_state", "is_init"))
        value = values["action_value"].gather(-1, batch["action"].unsqueeze(-1))
        with torch.no_grad(), set_recurrent_mode(False):
            after = batch["next"].select("observation", "recurrent_state")
            if self.late:
                after["recurrent_state"] = after["recurrent_state"].roll(1, 0)
            after["is_init"] = torch.zeros_like(batch["is_init"])
            best = self.target(after)["action_value"].max(-1, keepdim=True).values
            live = (~batch["next", "terminated"]).float()
            discount = 0.95 ** batch["steps_to_next_obs"].reshape(live.shape)
            target = batch["next", "reward"] + discount * live * best
        return {"loss": (value - target).square().mean()}


def make_loss(policy, late=False):
    return Returns(policy, late)
"""
STAGES = """
env: {factory: "returns:make_env"}
policy: {factory: "returns:make_policy"}
collect: {use: Collector, frames_per_batch: 200, batches: 2}
replay: {factory: "returns:make_replay"}
loss: {factory: "returns:make_loss"}
"""


@pytest.fixture
def returns(tmp_path: Path) -> Path:
    return written(tmp_path, "returns", PIPELINE, STAGES)


@pytest.mark.slow
def test_the_next_value_is_that_of_the_step_which_is_shown(returns: Path) -> None:
    run = verified(returns, ("VL",))
    assert failed(run) == set()
    assert result(run, "VL604").outcome is Outcome.PASSED


def test_a_state_of_another_step_is_told(returns: Path) -> None:
    assert failed(verified(returns, ("VL604",), "loss.late=true")) == {"VL604"}


def test_an_end_that_stays_behind_its_observation_is_told(returns: Path) -> None:
    kept = "replay.keep=[done, truncated, terminated]"
    found = result(verified(returns, ("VL603",), kept), "VL603")
    assert (found.outcome, found.severity) == (Outcome.FAILED, Severity.ERROR)
