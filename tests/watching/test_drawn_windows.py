"""``rnncheck run``: windows of episodes that are drawn with the state that acting had there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

WINDOWS = """import random
import gymnasium as gym
import numpy as np
import torch
from torch import nn

H, W = 16, 8


class Hide(gym.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, o):
        return o[::2].copy()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, H, batch_first=True)
        self.fc = nn.Linear(H, 2)

    def forward(self, x, h):
        y, h = self.rnn(x, h)
        return self.fc(y), h


def act(model, obs, h, eps):
    with torch.no_grad():
        q, h = model(torch.as_tensor(obs).reshape(1, 1, 2), h)
    if random.random() < eps:
        return random.randint(0, 1), h
    return q.argmax().item(), h


def main():
    random.seed(0)
    torch.manual_seed(0)
    env = Hide(gym.make("CartPole-v1", max_episode_steps=30))
    model, target = Model(), Model()
    target.load_state_dict(model.state_dict())
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    replay, ep = [], []
    obs, _ = env.reset(seed=0)
    h = torch.zeros(1, 1, H)
    for step in range(700):
        a, h_next = act(model, obs, h, max(0.1, 1 - step / 400))
        nobs, r, term, trunc, _ = env.step(a)
        ep.append((obs, a, r, nobs, term, h))
        obs, h = nobs, h_next
        if term or trunc:
            if len(ep) >= W:
                replay.append(ep)
            ep = []
            obs, _ = env.reset()
            h = torch.zeros(1, 1, H)
        if step % 9 == 0 and len(replay) >= 8:
            wins = []
            for e in random.choices(replay, k=12):
                i = random.randint(0, len(e) - W)
                wins.append(e[i:i + W])
            o = torch.tensor(np.array([[x[0] for x in w] + [w[-1][3]] for w in wins]))
            a_, r_, d_ = (torch.tensor([[x[k] for x in w] for w in wins]) for k in (1, 2, 4))
            h0 = torch.cat([w[0][5] for w in wins], 1)
            q, _ = model(o, h0)
            with torch.no_grad():
                qt, _ = target(o, h0)
                y = 0.1 * r_ + 0.98 * (~d_).float() * qt[:, 1:].amax(-1)
            loss = nn.functional.mse_loss(q[:, :-1].gather(2, a_[..., None])[..., 0], y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 90 == 0:
                target.load_state_dict(model.state_dict())


main()
"""
AT_THE_END = ("[w[0][5] for w in wins]", "[w[-1][5] for w in wins]")
FROM_AHEAD = (
    ("qt, _ = target(o, h0)", "qt, _ = target(o[:, 1:], h0)"),
    ("qt[:, 1:].amax(-1)", "qt.amax(-1)"),
)
NARROW = (
    ("y, h = self.rnn(x, h)", "y, h = self.rnn(x, h.float())"),
    ("return self.fc(y), h", "return self.fc(y).float(), h.float()"),
    ("    with torch.no_grad():\n        q, h", "    with torch.no_grad(), NARROW:\n        q, h"),
    (
        "            q, _ = model(o, h0)",
        "            with NARROW:\n                q, _ = model(o, h0)",
    ),
    (
        "            with torch.no_grad():\n                qt",
        "            with torch.no_grad(), NARROW:\n                qt",
    ),
    ("H, W = 16, 8", 'H, W = 16, 8\nNARROW = torch.autocast("cpu", dtype=torch.bfloat16)'),
)
ASKED = "EQ205,LS704,RP504,VL604"


def test_their_states_are_drawn_with_them(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, ASKED, WINDOWS) == (ExitCode.VERIFIED, [])


def test_who_acts_under_autocast_is_called_again_in_it(rnncheck: Any, tmp_path: Path) -> None:
    found = judged(rnncheck, tmp_path, "EQ201,RP504,RP507", WINDOWS, *NARROW)
    assert found == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param((AT_THE_END,), "RP504", id="state of the last step"),
        pytest.param(FROM_AHEAD, "VL604", id="targets from the state ahead"),
    ],
)
def test_their_faults_are_found(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], code: str
) -> None:
    assert judged(rnncheck, tmp_path, code, WINDOWS, *changes) == (ExitCode.FAILED, [code])
