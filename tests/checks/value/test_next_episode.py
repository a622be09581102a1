"""VL603: targets that a loss makes of the values of its row, and an episode that was cut short."""

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


def make_env(limit=7):
    parts = (InitTracker(), StepCounter(max_steps=limit), memory().make_tensordict_primer())
    make = lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)
    return TransformedEnv(SerialEnv(3, make), Compose(*parts))


def make_policy():
    value = TensorDictModule(nn.Linear(12, 1), ["seen"], ["state_value"])
    head = TensorDictModule(nn.Linear(12, 2), ["seen"], ["logits"])
    body = TensorDictSequential(memory(), value, head)
    kind = torch.distributions.Categorical
    return ProbabilisticActor(body, in_keys=["logits"], distribution_class=kind)


class Lambda(nn.Module):
    def __init__(self, policy, cut, normalised):
        super().__init__()
        self.policy, self.cut, self.normalised = policy, cut, normalised

    def forward(self, td):
        now = td.select("observation", "recurrent_state", "is_init")
        with set_recurrent_mode(True):
            dist = self.policy.get_dist(now)
        value = now["state_value"].squeeze(-1)
        after = td["next"].select("observation", "recurrent_state")
        with torch.no_grad(), set_recurrent_mode(False):
            after["is_init"] = torch.zeros_like(td["is_init"])
            alone = self.policy[0](after)["state_value"].squeeze(-1)
        done, over = (td["next", key].squeeze(-1) for key in ("done", "terminated"))
        reward = td["next", "reward"].squeeze(-1)
        following = torch.cat([value[:, 1:], alone[:, -1:]], 1)
        if self.cut == "own":
            following = torch.where(done, alone, following)
        following = following.detach() * (~(done if self.cut == "all" else over)).float()
        total, gains = following[:, -1], []
        for t in reversed(range(reward.shape[1])):
            total = reward[:, t] + 0.9 * torch.where(
                done[:, t], following[:, t], 0.2 * following[:, t] + 0.8 * total
            )
            gains.append(total)
        gain = torch.stack(gains[::-1], 1)
        if self.normalised:
            gain = (gain - gain.mean()) / gain.std()
        advantage = (gain - value).detach()
        chosen = dist.log_prob(td["action"])
        critic = (gain - value).square().mean()
        return {"loss_actor": -(chosen * advantage).mean(), "loss_critic": critic}


def make_loss(policy, cut="none", normalised=False):
    return Lambda(policy, cut, normalised)
"""
STAGES = """
env: {factory: "cut_short:make_env"}
policy: {factory: "cut_short:make_policy"}
collect: {use: Collector, frames_per_batch: 96, batches: 2}
loss: {factory: "cut_short:make_loss"}
"""


@pytest.fixture
def cut_short(tmp_path: Path) -> Path:
    return written(tmp_path, "cut_short", PIPELINE, STAGES)


def test_the_value_of_the_next_episode_is_told_where_episodes_are_cut_short(
    cut_short: Path,
) -> None:
    run = verified(cut_short, ("VL603",))
    assert failed(run) == {"VL603"}
    assert "truncated" in result(run, "VL603").findings[0].message


@pytest.mark.parametrize("cut", ["own", "all"])
@pytest.mark.parametrize("normalised", ["false", "true"])
def test_its_own_next_value_or_none_is_right(cut_short: Path, cut: str, normalised: str) -> None:
    changes = (f"loss.cut={cut}", f"loss.normalised={normalised}")
    assert result(verified(cut_short, ("VL603",), *changes), "VL603").outcome is Outcome.PASSED


def test_where_nothing_is_ever_cut_short_it_cannot_happen(cut_short: Path) -> None:
    run = verified(cut_short, ("VL603",), "env.limit=500")
    assert result(run, "VL603").outcome is Outcome.PASSED
