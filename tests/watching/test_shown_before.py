"""``rnncheck run``: a loop over a plain env that shows its policy the action, one-hot, and the
reward of the step before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged, run, written

SCRIPT = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

HIDDEN, ACTIONS = 12, 3
torch.manual_seed(0)


class Bandit(gym.Env):
    observation_space = gym.spaces.Box(-2, 2, (2,), np.float32)
    action_space = gym.spaces.Discrete(ACTIONS)

    def shown(self):
        return self.np_random.normal(size=2).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.best, self.steps = int(self.np_random.integers(ACTIONS)), 0
        self.last = int(self.np_random.integers(9, 15))
        return self.shown(), {}

    def step(self, action):
        self.steps += 1
        reward = float(action == self.best) - 0.1 * action
        return self.shown(), reward, self.steps == self.last, False, {}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(2 + ACTIONS + 1, HIDDEN)
        self.rnn, self.pi = nn.GRU(HIDDEN, HIDDEN), nn.Linear(HIDDEN, ACTIONS)

    def forward(self, obs, action, reward, state):
        h, state = self.rnn(self.embed(torch.cat([obs, action, reward], -1)).tanh(), state)
        return self.pi(h), state


def act(obs, last, got, state):
    parts = (torch.as_tensor(one).view(1, 1, -1) for one in (obs, last, got))
    with torch.no_grad():
        logits, state = net(*parts, state)
    return int(Categorical(logits=logits[0, 0]).sample()), state


def main():
    env = Bandit()
    optim = torch.optim.Adam(net.parameters(), 1e-3)
    for episode in range(12):
        obs, _ = env.reset(seed=episode)
        last, got, state, over = np.zeros(ACTIONS, np.float32), np.zeros(1, np.float32), None, False
        seen, lasts, gots, actions, rewards = [], [], [], [], []
        while not over:
            seen.append(obs)
            lasts.append(last)
            gots.append(got)
            action, state = act(obs, last, got, state)
            obs, reward, over, _, _ = env.step(action)
            actions.append(action)
            rewards.append(reward)
            last, got = np.eye(ACTIONS, dtype=np.float32)[action], np.array([reward], np.float32)
        parts = (torch.as_tensor(np.stack(one)).unsqueeze(1) for one in (seen, lasts, gots))
        logits = net(*parts, None)[0][:, 0]
        gains = torch.as_tensor(rewards).flip(0).cumsum(0).flip(0).float()
        loss = -(Categorical(logits=logits).log_prob(torch.as_tensor(actions)) * gains).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()


net = Net()
if __name__ == "__main__":
    main()
"""
OF_NOW = (
    ("            gots.append(got)\n", ""),
    (
        "            last, got =",
        "            gots.append(np.array([reward], np.float32))\n            last, got =",
    ),
)
CODES = "WR,BD3,EQ,CL4,RP5,GR8"


@pytest.mark.slow
def test_it_is_an_input_that_the_env_gives(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, CODES, SCRIPT) == (ExitCode.VERIFIED, [])


def test_the_reward_of_the_step_itself(rnncheck: Any, tmp_path: Path) -> None:
    code, found = judged(rnncheck, tmp_path, "EQ201,RP507,CL406", SCRIPT, *OF_NOW)
    assert code == ExitCode.FAILED, found


@pytest.mark.parametrize("codes", ["BD301,EQ201,RP502"])
def test_what_is_kept_is_judged_alike(rnncheck: Any, tmp_path: Path, codes: str) -> None:
    kept = tmp_path / "seen.rnncheck"
    run(rnncheck, "--select", codes, "--save", kept, written(tmp_path, SCRIPT))
    done = rnncheck("verify", "--select", codes, str(kept), cwd=tmp_path)
    assert done.returncode == ExitCode.VERIFIED, done.stdout
