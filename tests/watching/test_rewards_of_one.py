"""``rnncheck run``: masks of 0 and 1 beside rewards that are 1 at every step.

A loop adds what a time limit cut off to rewards of 1, and keeps ``1 - done`` beside them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

CUT = """import gymnasium as gym
import numpy as np
import torch
from torch import nn

N, T, H, GAMMA = 3, 10, 8, 0.97


class Hide(gym.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, o):
        return o[::2].copy()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.pi, self.v = nn.GRUCell(2, H), nn.Linear(H, 2), nn.Linear(H, 1)

    def forward(self, obs, state, done):
        state = self.cell(obs, state * (1 - done).unsqueeze(-1))
        return self.pi(state), self.v(state).squeeze(-1), state


torch.manual_seed(0)
same = gym.vector.AutoresetMode.SAME_STEP
maker = lambda: Hide(gym.make("CartPole-v1", max_episode_steps=6))
envs = gym.vector.SyncVectorEnv([maker] * N, autoreset_mode=same)
net = Net()
opt = torch.optim.Adam(net.parameters(), 1e-3)
obs, done, state = torch.tensor(envs.reset(seed=0)[0]), torch.ones(N), torch.zeros(N, H)
for _ in range(4):
    state = state.detach()
    logps, values, rewards, masks = [], [], [], []
    for t in range(T):
        logits, v, state = net(obs, state, done)
        dist = torch.distributions.Categorical(logits=logits)
        a = dist.sample()
        o, r, term, trunc, info = envs.step(a.numpy())
        r = torch.as_tensor(r, dtype=torch.float32)
        for i in np.flatnonzero(trunc & ~term):
            with torch.no_grad():
                fin = torch.as_tensor(info["final_obs"][i])[None]
                r[i] += GAMMA * net(fin, state[i : i + 1], torch.zeros(1))[1].item()
        obs, done = torch.as_tensor(o), torch.as_tensor(term | trunc).float()
        logps.append(dist.log_prob(a))
        values.append(v)
        rewards.append(r)
        masks.append(1 - done)
    with torch.no_grad():
        R = net(obs, state, done)[1]
    found = []
    for t in reversed(range(T)):
        R = rewards[t] + GAMMA * masks[t] * R
        found.append(R)
    gain = torch.stack(found[::-1]) - torch.stack(values)
    loss = gain.square().mean() - (torch.stack(logps) * gain.detach()).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
OF_THE_NEXT = ('torch.as_tensor(info["final_obs"][i])[None]', "torch.as_tensor(o[i])[None]")
OVER_LIMITS = ("masks.append(1 - done)", "masks.append(1 - torch.as_tensor(term).float())")


@pytest.mark.slow
def test_masks_are_no_rewards_with_something_added(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, "LS701,VL603", CUT) == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(OF_THE_NEXT, "VL603", id="added is the value of the next episode"),
        pytest.param(OVER_LIMITS, "LS701", id="returns run on over limits", marks=pytest.mark.slow),
    ],
)
def test_faults_at_time_limits_are_found(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], code: str
) -> None:
    found = judged(rnncheck, tmp_path, "LS701,VL603", CUT, change)
    assert found == (ExitCode.FAILED, [code])
