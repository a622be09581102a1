"""``rnncheck run``: a memory of padded episodes that shows networks the action before each step.

What was drawn of a memory may pair a step with another step's action; acting did not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

PADDED = """import random
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

H = 8


class Track(gym.Env):
    observation_space = gym.spaces.Box(-10, 10, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v = self.np_random.uniform(-0.5, 0.5, 2)
        return np.array([self.x], dtype=np.float32), {}

    def step(self, a):
        self.v += 0.1 * float(np.clip(a[0], -1, 1))
        self.x += self.v
        return np.array([self.x], dtype=np.float32), 1 - abs(self.x), abs(self.x) > 1.5, False, {}


class Net(nn.Module):
    def __init__(self, more, out):
        super().__init__()
        self.rnn, self.head = nn.GRU(2, H), nn.Linear(H + more, out)

    def memory(self, last, obs, h=None):
        return self.rnn(torch.cat([last, obs], -1), h)


class Actor(Net):
    def forward(self, last, obs, h=None):
        y, h = self.memory(last, obs, h)
        return Normal(torch.tanh(self.head(y)), 0.3).rsample(), h


class Critic(Net):
    def forward(self, last, obs, taken):
        y = self.memory(last, obs)[0][: len(taken)]
        return self.head(torch.cat([y, taken], -1))


def collect(env, actor, eps):
    o, over = env.reset()[0], False
    ep = {"obs": [o], "act": [], "rew": [], "term": []}
    last, h = torch.zeros(1, 1, 1), None
    while not over:
        with torch.no_grad():
            a, h = actor(last, torch.as_tensor(o).view(1, 1, 1), h)
        o, r, term, late, _ = env.step(a.view(-1).numpy())
        ep["obs"].append(o)
        ep["act"].append(a.view(-1).numpy())
        ep["rew"].append(r)
        ep["term"].append(float(term))
        last, over = a, term or late
    eps.append(ep)


def drawn(eps):
    eps = random.sample(eps, 6)
    L, B = max(len(e["rew"]) for e in eps), len(eps)
    obs, act = torch.zeros(2, L + 1, B, 1).unbind()
    rew, term, mask = torch.zeros(3, L, B, 1).unbind()
    for i, e in enumerate(eps):
        n = len(e["rew"])
        obs[: n + 1, i] = torch.as_tensor(np.stack(e["obs"]))
        act[1 : n + 1, i] = torch.as_tensor(np.stack(e["act"]))
        rew[:n, i, 0] = torch.tensor(e["rew"], dtype=torch.float32)
        term[:n, i, 0] = torch.tensor(e["term"])
        mask[:n, i] = 1
    return obs, act, rew, term, mask


def main():
    torch.manual_seed(0)
    random.seed(0)
    env, eps = gym.wrappers.TimeLimit(Track(), 14), []
    env.reset(seed=0)
    actor, critic, target = Actor(0, 1), Critic(1, 1), Critic(1, 1)
    target.load_state_dict(critic.state_dict())
    opt = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 1e-3)
    for number in range(14):
        collect(env, actor, eps)
        if number < 8:
            continue
        obs, act, rew, term, mask = drawn(eps)
        with torch.no_grad():
            behind = target(act, obs, actor(act, obs)[0])[1:]
            wanted = rew + 0.95 * (1 - term) * behind
        error = ((critic(act, obs, act[1:]) - wanted).square() * mask).sum() / mask.sum()
        gain = (critic(act, obs, actor(act, obs)[0][:-1]) * mask).sum() / mask.sum()
        loss = error - gain
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
"""
OF_NOW = (
    ("act[1 : n + 1, i] =", "act[:n, i] ="),
    ("critic(act, obs, act[1:])", "critic(act, obs, act[:-1])"),
)


def test_the_action_before_is_what_acting_was_shown(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, "RP507", PADDED) == (ExitCode.VERIFIED, [])


def test_a_step_that_is_shown_its_own_action_is_named(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, "RP507", PADDED, *OF_NOW) == (ExitCode.FAILED, ["RP507"])
