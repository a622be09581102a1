"""``rnncheck run``: a loop whose env shows zeros and ones, as arrays; its loss is made of what
acting gave, beside a value that hides with which step's gain an action is weighed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

SCRIPT = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

HIDDEN, SYMBOLS = 16, 4
torch.manual_seed(0)


class Echo(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (SYMBOLS + 1,), np.float32)
    action_space = gym.spaces.Discrete(SYMBOLS)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.symbol, self.left = int(self.np_random.integers(SYMBOLS)), 12
        return np.eye(SYMBOLS + 1, dtype=np.float32)[self.symbol], {}

    def step(self, action):
        self.left -= 1
        shown = np.eye(SYMBOLS + 1, dtype=np.float32)[SYMBOLS]
        return shown, float(action == self.symbol), self.left == 0, False, {}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.pi = nn.GRUCell(SYMBOLS + 1, HIDDEN), nn.Linear(HIDDEN, SYMBOLS)
        self.value = nn.Linear(HIDDEN, 1)

    def forward(self, shown, state):
        state = self.cell(shown, state)
        return Categorical(logits=self.pi(state)), self.value(state).squeeze(-1), state


env, net = Echo(), Net()
optim = torch.optim.Adam(net.parameters(), 1e-3)
for episode in range(30):
    shown, _ = env.reset(seed=episode)
    state, over = torch.zeros(1, HIDDEN), False
    logps, values, rewards = [], [], []
    while not over:
        dist, value, state = net(torch.from_numpy(shown).unsqueeze(0), state)
        action = dist.sample()
        shown, reward, over, _, _ = env.step(action.item())
        logps.append(dist.log_prob(action))
        values.append(value)
        rewards.append(reward)
    found, behind = [], 0.0
    for reward in reversed(rewards):
        behind = reward + 0.95 * behind
        found.insert(0, behind)
    returns, values = torch.tensor(found), torch.cat(values)
    gain = returns - values.detach()
    loss = (returns - values).square().mean() - (torch.cat(logps) * gain).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
OF_THE_NEXT_STEP = (
    "    gain = returns - values.detach()\n",
    "    gain = (returns - values.detach()).roll(-1) * (torch.arange(len(returns)) < 11)\n",
)


@pytest.mark.slow
def test_they_have_a_gradient(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, "BD303,GR805,LS707", SCRIPT) == (ExitCode.VERIFIED, [])


def test_a_value_hides_no_gain_of_another_step(rnncheck: Any, tmp_path: Path) -> None:
    told = judged(rnncheck, tmp_path, "LS707", SCRIPT, OF_THE_NEXT_STEP)
    assert told == (ExitCode.FAILED, ["LS707"])
