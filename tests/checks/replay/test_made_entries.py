"""RP509: numbers that a batch factory makes of rewards, under names of its own."""

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
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor, set_recurrent_mode


def memory():
    return GRUModule(input_size=4, hidden_size=12, in_key="observation", out_key="seen")


def make_env():
    parts = (InitTracker(), StepCounter(max_steps=9), memory().make_tensordict_primer())
    make = lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)
    return TransformedEnv(SerialEnv(4, make), Compose(*parts))


def make_policy():
    head = TensorDictModule(nn.Linear(12, 2), ["seen"], ["logits"])
    body = TensorDictSequential(memory(), head)
    kind = torch.distributions.Categorical
    return ProbabilisticActor(body, in_keys=["logits"], distribution_class=kind)


def make_batch(data, ends="cut", order="kept", form="plain"):
    reward, done = data["next", "reward"], data["next", "done"]
    gain, total = torch.zeros_like(reward), torch.zeros_like(reward[:, 0])
    for t in reversed(range(reward.shape[1])):
        live = torch.ones_like(total) if ends == "ignored" else (~done[:, t]).float()
        total = reward[:, t] + 0.9 * live * total
        gain[:, t] = total
    if form == "normalised":
        gain = (gain - gain.mean()) / gain.std()
    elif form == "scaled":  # by what was seen so far, as an env's reward scaling does
        seen = gain.abs().flatten().cumsum(0) / torch.arange(1, gain.numel() + 1)
        gain = gain / (1 + seen.reshape(gain.shape))
    elif form == "beside":  # less what the other rows have on the average: a leave-one-out baseline
        gain = (gain.sum(0, keepdim=True) - gain) / (len(gain) - 1)
    moved = torch.arange(len(data)).roll(1)
    batch = data[moved].clone()
    return batch.set("gain", gain if order == "forgotten" else gain[moved])


class Reinforce(nn.Module):
    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def forward(self, td):
        with set_recurrent_mode(True):
            dist = self.policy.get_dist(td.copy())
        chosen = dist.log_prob(td["action"])
        return {"loss": -(chosen * td["gain"].squeeze(-1)).mean()}


def make_loss(policy):
    return Reinforce(policy)
"""
STAGES = """
env: {factory: "gains:make_env"}
policy: {factory: "gains:make_policy"}
collect: {use: Collector, frames_per_batch: 120, batches: 2}
batch: {factory: "gains:make_batch"}
loss: {factory: "gains:make_loss"}
"""


@pytest.fixture
def gains(tmp_path: Path) -> Path:
    return written(tmp_path, "gains", PIPELINE, STAGES)


@pytest.mark.parametrize("form", ["plain", "normalised", "scaled", "beside"])
def test_what_moves_with_its_own_episode_is_right(gains: Path, form: str) -> None:
    found = result(verified(gains, ("RP509",), f"batch.form={form}"), "RP509")
    assert found.outcome is Outcome.PASSED


def test_gains_of_other_rows_are_told(gains: Path) -> None:
    run = verified(gains, ("RP509",), "batch.order=forgotten")
    assert failed(run) == {"RP509"}
    (finding,) = result(run, "RP509").findings
    assert "gain" in finding.message
    assert "in another row alone" in finding.message


def test_sums_over_ends_are_told(gains: Path) -> None:
    run = verified(gains, ("RP509",), "batch.ends=ignored")
    assert failed(run) == {"RP509"}
    assert "earlier episodes" in result(run, "RP509").findings[0].message
