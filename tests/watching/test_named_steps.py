"""``rnncheck run``: agents that give records, and are shown the action before by envs in turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

NAMED = """from collections import namedtuple

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

T, B, H = 24, 4, 12
Info = namedtuple("Info", ["value", "about"])
Step = namedtuple("Step", ["action", "info"])


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.pi, self.v = nn.GRUCell(5, H), nn.Linear(H, 2), nn.Linear(H, 1)

    def step(self, obs, before, h):
        h = self.cell(torch.cat([obs, before.float().unsqueeze(-1)], -1), h)
        return self.pi(h), self.v(h).squeeze(-1), h

    @torch.no_grad()
    def act(self, obs, before, h):
        logits, value, h = self.step(obs, before, h)
        return Step(Categorical(logits=logits).sample(), Info(value, object())), h


torch.manual_seed(0)
agent = Agent()
optim = torch.optim.Adam(agent.parameters(), 1e-3)
envs = [gym.make("CartPole-v1") for _ in range(B)]
obs = torch.tensor(np.stack([env.reset(seed=n)[0] for n, env in enumerate(envs)]))
before, h = torch.zeros(B, dtype=torch.long), torch.zeros(B, H)
for _ in range(6):
    first, rows = h.clone(), []
    for _ in range(T):
        step, h = agent.act(obs, before, h)
        seen, shown, action = obs, before, step.action
        obs, before, keep = obs.clone(), action.clone(), torch.ones(B, 1)
        reward, done = torch.zeros(B), torch.zeros(B)
        for n, env in enumerate(envs):
            o, reward[n], terminated, truncated, _ = env.step(action[n].item())
            if terminated or truncated:
                o, _ = env.reset()
                done[n], keep[n], before[n] = 1, 0, 0
            obs[n] = torch.tensor(o)
        h = h * keep
        rows.append((seen, shown, action, reward, done))
    seen, shown, action, reward, done = (torch.stack(one) for one in zip(*rows))
    state, logits, values = first, [], []
    for t in range(T):
        out, value, state = agent.step(seen[t], shown[t], state)
        state = state * (1 - done[t]).unsqueeze(-1)
        logits.append(out)
        values.append(value)
    returns, after = torch.zeros(T, B), torch.zeros(B)
    for t in reversed(range(T)):
        after = reward[t] + 0.97 * after * (1 - done[t])
        returns[t] = after
    values = torch.stack(values)
    told = Categorical(logits=torch.stack(logits)).log_prob(action)
    gain = (returns - values).detach()
    loss = (returns - values).square().mean() - (told * gain).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
KEPT = ("        h = h * keep\n", "")


def test_the_healthy_one_is_verified(rnncheck: Any, tmp_path: Path) -> None:
    found = judged(rnncheck, tmp_path, "BD301,CL403,CL406,EQ201,RP504", NAMED)
    assert found == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_a_state_that_is_kept_is_told(rnncheck: Any, tmp_path: Path) -> None:
    code, found = judged(rnncheck, tmp_path, "CL403", NAMED, KEPT)
    assert (code, found) == (ExitCode.FAILED, ["CL403"])
