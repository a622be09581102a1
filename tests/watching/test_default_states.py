"""``rnncheck run``: DRQN with whole rows of a memory as lists, a state that is None unless it is
given, and actions drawn from the env's own space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

SCRIPT = """
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn

ROWS, STEPS, HIDDEN = 4, 6, 16


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, HIDDEN, batch_first=True)
        self.out = nn.Linear(HIDDEN, 2)

    def forward(self, seen, hidden=None):
        if not hidden:
            hidden = torch.zeros(1, len(seen), HIDDEN), torch.zeros(1, len(seen), HIDDEN)
        x, hidden = self.lstm(seen, hidden)
        return self.out(x), hidden


def act(net, seen, hidden, epsilon, env):
    values, hidden = net(torch.FloatTensor(seen)[None, None], hidden)
    if random.random() < epsilon:
        return env.action_space.sample(), hidden
    return values.argmax(-1).item(), hidden


class Memory:
    def __init__(self):
        self.rows = deque([[]], maxlen=500)

    def store(self, *step):
        self.rows[-1].append(step)
        if len(self.rows[-1]) == STEPS:
            self.rows.append([])
        elif step[-1]:
            self.rows[-1] = []

    def sample(self):
        found = []
        for row in random.sample(list(self.rows)[:-1], ROWS):
            names = ("obs", "acts", "rews", "next_obs", "done")
            found.append({name: np.array(one) for name, one in zip(names, zip(*row))})
        return found, STEPS


def train(net, target, memory, optimizer):
    samples, count = memory.sample()
    names = ("obs", "acts", "rews", "next_obs", "done")
    obs, acts, rews, after, done = ([one[name] for one in samples] for name in names)
    observations, actions = torch.FloatTensor(np.array(obs)), torch.LongTensor(np.array(acts))
    rewards, afters = torch.FloatTensor(np.array(rews)), torch.FloatTensor(np.array(after))
    dones = torch.FloatTensor(np.array(done))
    values, _ = net.forward(observations)
    best = net.forward(afters)[0].argmax(-1)
    following = target.forward(afters)[0].gather(-1, best[..., None])[..., 0].detach()
    wanted = rewards + 0.9 * (1 - dones) * following
    loss = (values.gather(-1, actions[..., None])[..., 0] - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    env, net, target, memory = gym.make("CartPole-v1"), Net(), Net(), Memory()
    env.action_space.seed(3)
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for episode in range(40):
        whole, _ = env.reset(seed=episode)
        seen, hidden, done = whole[::2], None, False
        while not done:
            action, hidden = act(net, seen, hidden, 0.9, env)
            whole, reward, done, _, _ = env.step(action)
            memory.store(seen, action, reward / 100, whole[::2], done)
            seen = whole[::2]
            if episode > 12:
                train(net, target, memory, optimizer)


main()
"""
SHUFFLED = (
    "for row in random.sample(list(self.rows)[:-1], ROWS):",
    "for row in (random.sample(one, STEPS) for one in random.sample(list(self.rows)[:-1], ROWS)):",
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="as they were collected"),
        pytest.param((SHUFFLED,), (ExitCode.FAILED, ["RP502"]), id="in another order"),
    ],
)
def test_rows_are_told(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: Any
) -> None:
    """Flags of one row may be the same as actions of another: all rows together tell more."""
    assert judged(rnncheck, tmp_path, "EQ206,RP502", SCRIPT, *changes) == expected
