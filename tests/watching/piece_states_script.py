"""A loop over a plain vector env that keeps, in tensors of their own, the states in which pieces of
the rollout begin, and trains on some envs at a time."""

from __future__ import annotations

Change = tuple[str, str]

PIECES = """import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

ENVS, STEPS, PIECE, WIDTH = 6, 32, 8, 24


class Masked(gym.ObservationWrapper):
    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, seen):
        return seen[[0, 2]]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(2, WIDTH)
        self.pi, self.v = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 1)

    def forward(self, seen, states, begins=None, length=1):
        x, out = seen.reshape(-1, length, 2).transpose(0, 1), []
        for t in range(length):
            if begins is not None:
                keep = 1 - begins.reshape(-1, length)[:, t].float().view(1, -1, 1)
                states = tuple(one * keep for one in states)
            y, states = self.cell(x[t : t + 1], states)
            out.append(y)
        y = torch.cat(out).transpose(0, 1).reshape(len(seen), WIDTH)
        return self.pi(y), self.v(y).squeeze(-1), states


def rows(value):
    return value.transpose(0, 1).reshape(-1, *value.shape[2:])


torch.manual_seed(3)
envs = gym.vector.SyncVectorEnv([Masked] * ENVS, autoreset_mode="SameStep")
net = Net()
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
seen = torch.as_tensor(envs.reset(seed=3)[0])
states = tuple(torch.zeros(1, ENVS, WIDTH) for _ in range(2))
over = torch.ones(ENVS, dtype=torch.uint8)
for _ in range(6):
    kept = [torch.zeros(STEPS // PIECE, 1, ENVS, WIDTH) for _ in states]
    all_seen, acted = torch.zeros(STEPS, ENVS, 2), torch.zeros(STEPS, ENVS, dtype=torch.long)
    was, values, paid = (torch.zeros(STEPS, ENVS) for _ in range(3))
    begins = torch.zeros(STEPS, ENVS, dtype=torch.uint8)
    for t in range(STEPS):
        if t % PIECE == 0:
            for one, state in zip(kept, states):
                one[t // PIECE] = state
        with torch.no_grad():
            logits, values[t], states = net(seen, states)
        dist = Categorical(logits=logits)
        action = dist.sample()
        all_seen[t], begins[t], acted[t], was[t] = seen, over, action, dist.log_prob(action)
        after, reward, ended, cut, _ = envs.step(action.numpy())
        paid[t], seen = torch.as_tensor(reward).float(), torch.as_tensor(after)
        over = torch.as_tensor(ended | cut).to(torch.uint8)
        for state in states:
            state[:, over.bool()] = 0
    with torch.no_grad():
        last = net(seen, states)[1]
    gains, total = torch.zeros(STEPS, ENVS), 0
    for t in reversed(range(STEPS)):
        behind = t == STEPS - 1
        goes_on = 1 - (over if behind else begins[t + 1]).float()
        value = last if behind else values[t + 1]
        delta = paid[t] + 0.99 * value * goes_on - values[t]
        gains[t] = total = delta + 0.99 * 0.95 * goes_on * total
    first = [one.permute(1, 2, 0, 3).reshape(1, -1, WIDTH) for one in kept]
    good = rows(gains)
    good = (good - good.mean()) / (good.std() + 1e-8)
    xs, ys, before, aims, flags = map(rows, (all_seen, acted, was, gains + values, begins))
    size = ENVS * STEPS // 2
    for at in range(0, ENVS * STEPS, size):
        some, piece = slice(at, at + size), slice(at // PIECE, (at + size) // PIECE)
        start = [one[:, piece].contiguous() for one in first]
        logits, value, _ = net(xs[some], start, flags[some], PIECE)
        dist = Categorical(logits=logits)
        ratio = (dist.log_prob(ys[some]) - before[some]).exp()
        gain = good[some]
        chosen = -torch.min(gain * ratio, gain * ratio.clamp(0.8, 1.2)).mean()
        loss = chosen + 0.5 * (value - aims[some]).square().mean() - 0.01 * dist.entropy().mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
"""
OTHER_ENVS: Change = ("one.permute(1, 2, 0, 3)", "one.permute(1, 0, 2, 3)")
