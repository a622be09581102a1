"""Batches ``[T, B]`` of a batch factory, where ``training_pass`` says that time comes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.results.model import Outcome, Verdict
from tests.checks.verified import failed, result, verified
from tests.checks.written import written

PIPELINE = """
import torch
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.data import Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter
from torchrl.envs import TensorDictPrimer, TransformedEnv

SIZE, ENVS, STEPS = 12, 4, 24


class Agent(TensorDictModuleBase):
    in_keys = ["observation", "h", "is_init"]
    out_keys = ["logits", "action", "logp", ("next", "h")]

    def __init__(self):
        super().__init__()
        self.gru, self.actor = nn.GRU(4, SIZE), nn.Linear(SIZE, 2)

    def states(self, x, h, start):
        out = []
        for t in range(len(x)):
            keep = (~start[t]).float().view(1, -1, 1)
            seen, h = self.gru(x[t : t + 1], keep * h)
            out.append(seen)
        return torch.cat(out)

    def forward(self, td):
        lead = td["observation"].shape[:-1]
        x, h = td["observation"].reshape(1, -1, 4), td["h"].reshape(1, -1, SIZE)
        out = self.states(x, h, td["is_init"].reshape(1, -1))[0]
        logits = self.actor(out)
        dist = torch.distributions.Categorical(logits=logits)
        action = dist.sample()
        td["logits"], td["next", "h"] = logits.reshape(*lead, 2), out.reshape(*lead, SIZE)
        td["action"], td["logp"] = action.reshape(lead), dist.log_prob(action).reshape(lead)
        return td


def make_env():
    state = TensorDictPrimer({"h": Unbounded((SIZE,))}, expand_specs=True)
    make = lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)
    return TransformedEnv(SerialEnv(ENVS, make), Compose(InitTracker(), StepCounter(9), state))


def make_policy():
    return Agent()


def make_batch(data, shuffled=False):
    batch = data[torch.randperm(ENVS)[:2]].transpose(0, 1).contiguous()
    return batch[torch.randperm(len(batch))] if shuffled else batch


def unrolled(batch, policy):
    out = policy.states(batch["observation"], batch["h"][:1], batch["is_init"].squeeze(-1))
    return {"logits": policy.actor(out)}


def loss(batch, policy, leaks=False):
    dist = torch.distributions.Categorical(logits=unrolled(batch, policy)["logits"])
    ratio = (dist.log_prob(batch["action"]) - batch["logp"]).exp()
    reward, done = batch["next", "reward"].squeeze(-1), batch["next", "done"].squeeze(-1)
    total, gains = torch.zeros_like(reward[0]), []
    for t in reversed(range(len(reward))):
        total = reward[t] + 0.9 * (1.0 if leaks else (~done[t]).float()) * total
        gains.append(total)
    return -(ratio * torch.stack(gains[::-1])).mean()
"""
STAGES = """
env: {factory: "columns:make_env"}
policy: {factory: "columns:make_policy"}
collect: {use: Collector, frames_per_batch: 96, batches: 2}
batch: {factory: "columns:make_batch"}
training_pass: {function: "columns:unrolled", time_first: true}
loss: {function: "columns:loss"}
"""


@pytest.fixture
def columns(tmp_path: Path) -> Path:
    return written(tmp_path, "columns", PIPELINE, STAGES)


@pytest.mark.slow
def test_columns_are_rows_in_time(columns: Path) -> None:
    run = verified(columns)
    assert failed(run) == set()
    assert run.verdict is Verdict.VERIFIED
    assert result(run, "LS701").outcome is Outcome.PASSED


def test_steps_out_of_order_are_told(columns: Path) -> None:
    assert "RP502" in failed(verified(columns, ("RP502",), "batch.shuffled=true"))


@pytest.mark.slow
def test_sums_over_ends_are_told(columns: Path) -> None:
    assert failed(verified(columns, ("LS701", "VL6"), "loss.leaks=true")) == {"LS701"}
