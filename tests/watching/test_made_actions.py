"""``rnncheck run``: envs that are stepped by turns, by actions that are made of what one call drew.

The lines of the loop note a row that holds the state they were given, which no network made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

MADE = """import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

N, T, H, GAMMA = 3, 16, 8, 0.95


class Hide(gym.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def observation(self, o):
        return o[:2].copy()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.mu, self.v = nn.GRUCell(2, H), nn.Linear(H, 1), nn.Linear(H, 1)
        self.spread = nn.Parameter(torch.zeros(1))

    def core(self, x, state, begin):
        return self.cell(x, state * (~begin).float()[..., None])

    def dist(self, h):
        return Normal(self.mu(h), self.spread.exp())


torch.manual_seed(1)
envs = [Hide(gym.make("Pendulum-v1", max_episode_steps=7)) for _ in range(N)]
obs = torch.tensor(np.stack([e.reset(seed=i)[0] for i, e in enumerate(envs)]))
begin, net, state = torch.ones(N, dtype=torch.bool), Net(), torch.zeros(N, H)
opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(4):
    mem = []
    for _ in range(T):
        with torch.no_grad():
            h = net.core(obs, state, begin)
            act = net.dist(h).sample()
            row = dict(obs=obs, begin=begin, state=state, act=act, val=net.v(h)[:, 0])
        rew, ended, nobs = torch.zeros(N), torch.zeros(N, dtype=torch.bool), []
        for i, e in enumerate(envs):
            o, r, term, trunc, _ = e.step(2 * act[i].clamp(-1, 1).numpy())
            rew[i], ended[i] = float(r), term or trunc
            nobs.append(e.reset()[0] if term or trunc else o)
        row.update(rew=rew, ended=ended)
        mem.append(row)
        obs, state, begin = torch.tensor(np.stack(nobs)), h, ended
    data = {k: torch.stack([m[k] for m in mem]) for k in mem[0]}
    with torch.no_grad():
        g, ret = net.v(net.core(obs, state, begin))[:, 0], []
    for t in reversed(range(T)):
        g = data["rew"][t] + GAMMA * (~data["ended"][t]).float() * g
        ret.append(g)
    ret = torch.stack(ret[::-1])
    s, hs = data["state"][0], []
    for t in range(T):
        s = net.core(data["obs"][t], s, data["begin"][t])
        hs.append(s)
    hs = torch.stack(hs)
    logp = net.dist(hs).log_prob(data["act"])[..., 0]
    loss = (net.v(hs)[..., 0] - ret).pow(2).mean() - (logp * (ret - data["val"])).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
STEPS = "o, r, term, trunc, _ = e.step(2 * act[i].clamp(-1, 1).numpy())"
BY_A_NAME = (
    STEPS,
    "own = act[i].clamp(-1, 1)\n            o, r, term, trunc, _ = e.step(2 * own.numpy())",
)
SIDE_BY_SIDE = (
    ("for i, e in enumerate(envs):", "for i, (e, own) in enumerate(zip(envs, act)):"),
    (STEPS, "o, r, term, trunc, _ = e.step(2 * own.clamp(-1, 1).numpy())"),
)
NOT_RESET = ('data["begin"][t])\n        hs', 'data["begin"][t] & False)\n        hs')
RUN_ON = (' * (~data["ended"][t]).float() * g', " * g")
KEPT = ("h, ended\n", "h, ended & False\n")


@pytest.mark.first(2)
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="of an entry"),
        pytest.param((BY_A_NAME,), id="of a variable made of an entry"),
        pytest.param(SIDE_BY_SIDE, id="of what the loop goes through"),
    ],
)
def test_what_actions_are_made_of_is_what_acted(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...]
) -> None:
    found = judged(rnncheck, tmp_path, "BD301,CL403,LS701", MADE, *changes)
    assert found == (ExitCode.VERIFIED, [])


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(RUN_ON, "LS701", id="returns run on over the end"),
        pytest.param(NOT_RESET, "BD301", id="the training pass is not reset"),
        pytest.param(KEPT, "CL403", id="acting is not reset"),
    ],
)
def test_their_faults_are_found(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], code: str
) -> None:
    assert judged(rnncheck, tmp_path, code, MADE, change) == (ExitCode.FAILED, [code])
