"""``rnncheck run``: a learner makes values ahead of its policy's pass, each in a method of its own,
from the state that was kept beside the first step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, run, written

SCRIPT = """
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical

GAMMA, HORIZON = 0.98, 7
torch.manual_seed(0)


class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.data = []
        self.enc, self.lstm = nn.Linear(4, 24), nn.LSTM(24, 16)
        self.pi_head, self.v_head = nn.Linear(16, 2), nn.Linear(16, 1)
        self.optim = torch.optim.Adam(self.parameters(), lr=1e-3)

    def pi(self, x, state):
        x, state = self.lstm(torch.relu(self.enc(x)).view(-1, 1, 24), state)
        return torch.softmax(self.pi_head(x), dim=2), state

    def v(self, x, state):
        x, _ = self.lstm(torch.relu(self.enc(x)).view(-1, 1, 24), state)
        return self.v_head(x).squeeze(1)

    def train_net(self):
        xs, acts, rews, probs, states, going = (list(one) for one in zip(*self.data))
        self.data = []
        xs, acts = torch.stack(xs), torch.tensor(acts).unsqueeze(-1)
        rews, going = torch.tensor(rews).unsqueeze(-1), torch.tensor(going).unsqueeze(-1)
        probs = torch.tensor(probs).unsqueeze(-1)
        first = tuple(one.detach() for one in states[0])
        for _ in range(2):
            values = self.v(xs, first)
            after, found = torch.zeros(1), []
            for reward, goes in zip(rews.flip(0), going.flip(0)):
                after = reward + GAMMA * after * goes
                found.append(after)
            gain = torch.stack(found[::-1]) - values
            pi, _ = self.pi(xs, first)
            ratio = torch.exp(torch.log(pi.squeeze(1).gather(1, acts)) - torch.log(probs))
            each = gain.square() - torch.min(
                ratio * gain.detach(), ratio.clamp(0.9, 1.1) * gain.detach()
            )
            self.optim.zero_grad()
            each.mean().backward()
            self.optim.step()


env = gym.make("CartPole-v1")
learner = Learner()
for episode in range(16):
    state = (torch.zeros(1, 1, 16), torch.zeros(1, 1, 16))
    seen, _ = env.reset(seed=episode)
    done = False
    while not done:
        for t in range(HORIZON):
            x, before = torch.from_numpy(seen).float(), state
            prob, state = learner.pi(x, state)
            prob = prob.view(-1)
            a = Categorical(prob).sample().item()
            seen, r, terminated, truncated, _ = env.step(a)
            done = terminated or truncated
            learner.data.append((x, a, r / 100.0, prob[a].item(), before, float(not done)))
            if done:
                break
        learner.train_net()
"""
BEHIND = ("prob[a].item(), before,", "prob[a].item(), state,")  # as the step left it


@pytest.mark.parametrize(("changes", "codes"), [((), set()), ((BEHIND,), {"RP504"})])
def test_the_pass_of_the_policy_is_judged(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], codes: set[str]
) -> None:
    """And not that of the values, which tells nothing of what the policy gives."""
    path = written(tmp_path, SCRIPT, *changes)
    ended, told, _ = run(rnncheck, "--select", "EQ,BD301,RP504,RP507", path)
    outcomes = {one["code"]: one["outcome"] for one in told["checks"]}
    assert ended == (ExitCode.FAILED if codes else ExitCode.VERIFIED), outcomes
    assert codes <= set(failed(told))
    assert codes or outcomes["EQ201"] == outcomes["RP507"] == "passed"
