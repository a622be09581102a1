"""``rnncheck run``: pictures, which an env shows as whole numbers and a network gets as floats."""

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
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn
from torch.distributions import Categorical

ENVS, STEPS, HIDDEN, SIDE = 3, 16, 12, 5


class Dots(gym.Env):
    observation_space = gym.spaces.Box(0, 255, (1, SIDE, SIDE), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def picture(self):
        return self.np_random.integers(0, 256, (1, SIDE, SIDE), dtype=np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(4, 9))
        return self.picture(), {}

    def step(self, action):
        self.left -= 1
        return self.picture(), float(self.np_random.random()), self.left == 0, False, {}


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten())
        self.gru = nn.GRU(4 * (SIDE - 2) ** 2, HIDDEN)
        self.actor, self.critic = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def states(self, x, state, done):
        hidden = self.look(x / 255.0).view(-1, state.shape[1], self.gru.input_size)
        found = []
        for one, over in zip(hidden, done.view(-1, state.shape[1])):
            out, state = self.gru(one.unsqueeze(0), (1.0 - over).view(1, -1, 1) * state)
            found.append(out)
        return torch.cat(found).flatten(0, 1), state

    def act(self, x, state, done, action=None):
        hidden, state = self.states(x, state, done)
        dist = Categorical(logits=self.actor(hidden))
        action = dist.sample() if action is None else action
        return action, dist.log_prob(action), self.critic(hidden).flatten(), state


torch.manual_seed(0)
envs = SyncVectorEnv([Dots] * ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
agent = Agent()
optim = torch.optim.Adam(agent.parameters(), lr=1e-3)
obs = torch.zeros((STEPS, ENVS, 1, SIDE, SIDE))
actions, rewards, dones, values = (torch.zeros((STEPS, ENVS)) for _ in range(4))
seen, over = torch.Tensor(envs.reset(seed=1)[0]), torch.zeros(ENVS)
state = torch.zeros(1, ENVS, HIDDEN)
for update in range(6):
    first = state.clone()
    for t in range(STEPS):
        obs[t], dones[t] = seen, over
        with torch.no_grad():
            action, _, value, state = agent.act(seen, state, over)
        actions[t], values[t] = action, value
        shown, reward, ended, late, _ = envs.step(action.numpy())
        rewards[t] = torch.as_tensor(reward)
        seen, over = torch.Tensor(shown), torch.Tensor(ended | late)
    with torch.no_grad():
        total = agent.act(seen, state, over)[2]
        returns = torch.zeros_like(rewards)
        for t in reversed(range(STEPS)):
            goes_on = 1.0 - (over if t == STEPS - 1 else dones[t + 1])
            returns[t] = total = rewards[t] + 0.9 * goes_on * total
    _, logp, value, _ = agent.act(
        obs.view(-1, 1, SIDE, SIDE), first, dones.flatten(), actions.flatten().long()
    )
    advantage = (returns - values).flatten()
    loss = (returns.flatten() - value).square().mean() - (advantage * logp).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
ASKED = "LS701,GR805"
UNCUT = ("goes_on = 1.0 - (over if t == STEPS - 1 else dones[t + 1])", "goes_on = 1.0")


def test_gradients_reach_them(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, ASKED, SCRIPT) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_returns_that_run_on_are_told_by_what_reaches_them(rnncheck: Any, tmp_path: Path) -> None:
    code, failed = judged(rnncheck, tmp_path, ASKED, SCRIPT, UNCUT)
    assert (code, failed) == (ExitCode.FAILED, ["LS701"])
