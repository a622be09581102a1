"""Losses that make their training pass themselves, and functions that are a loss together."""

from __future__ import annotations

from tests.watching.estimates_script import ROLLOUT

# The pass is a loop inside the loss, which is also given returns' ingredients.
WITHIN = """
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical

HIDDEN, GAMMA = 16, 0.98
torch.manual_seed(2)

ENVS, STEPS = 4, 32


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, HIDDEN)
        self.pi, self.v = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def forward(self, x, h):
        h = self.cell(x, h)
        return self.pi(h), self.v(h).squeeze(-1), h

    @torch.no_grad()
    def act(self, x, h, start):
        logits, value, h = self(x, h * (1 - start).unsqueeze(-1))
        return Categorical(logits=logits).sample(), value, h


def loss_of(net, xs, starts, acts, rews, h, over, last):
    told, values = [], []
    for x, a, start in zip(xs, acts, starts):
        logits, value, h = net(x, h * (1 - start).unsqueeze(-1))
        told.append(Categorical(logits=logits).log_prob(a))
        values.append(value)
    ends = [*starts[1:], over]
    after, found = last, []
    for r, end in zip(reversed(rews), reversed(ends)):
        after = r + GAMMA * after * (1 - end)
        found.append(after)
    gain = torch.stack(found[::-1]) - torch.stack(values)
    each = gain.square() - torch.stack(told) * gain.detach()
    return each.mean()


same = gym.vector.AutoresetMode.SAME_STEP
envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * ENVS, autoreset_mode=same)
net = Net()
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
x, h, start = torch.tensor(envs.reset(seed=2)[0]), torch.zeros(ENVS, HIDDEN), torch.zeros(ENVS)
for update in range(5):
    first = h
    xs, starts, acts, rews = [], [], [], []
    for step in range(STEPS):
        a, value, h = net.act(x, h, start)
        xs.append(x)
        starts.append(start)
        acts.append(a)
        seen, rew, terminated, truncated, _ = envs.step(a.numpy())
        rews.append(torch.tensor(rew, dtype=torch.float32))
        x, start = torch.tensor(seen), torch.tensor(terminated | truncated).float()
    with torch.no_grad():
        last = net.act(x, h, start)[1]
    loss = loss_of(net, xs, starts, acts, rews, first, start, last)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
# One trajectory after the other, as arrays.
SPANS = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

HIDDEN, GAMMA = 16, 0.98
torch.manual_seed(2)

STEPS = 48


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, HIDDEN)
        self.pi, self.v = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def forward(self, x, h):
        out, h = self.gru(torch.as_tensor(x), h)
        return self.pi(out).squeeze(1), self.v(out).flatten(), h

    @torch.no_grad()
    def act(self, x, h):
        logits, _, h = self(x.reshape(1, 1, 4), h)
        return Categorical(logits=logits).sample(), h


def loss_of(net, xs, acts, togo, dones, hs):
    told, values = [], []
    for begin, end in spans(dones):
        logits, value, _ = net(np.stack(xs[begin:end])[:, None], hs[begin])
        told.append(Categorical(logits=logits).log_prob(torch.cat(acts[begin:end])))
        values.append(value)
    gain = torch.tensor(togo) - torch.cat(values)
    return gain.square().mean() - (torch.cat(told) * gain.detach()).mean()


def spans(dones):
    begins = [0, *(n + 1 for n, done in enumerate(dones[:-1]) if done)]
    return list(zip(begins, [*begins[1:], len(dones)]))


env, net = gym.make("CartPole-v1"), Net()
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
x, h = env.reset(seed=2)[0], torch.zeros(1, 1, HIDDEN)
for update in range(5):
    xs, hs, acts, rews, dones = [], [], [], [], []
    for step in range(STEPS):
        xs.append(x)
        hs.append(h)
        a, h = net.act(x, h)
        x, r, term, trunc, _ = env.step(a.item())
        acts.append(a)
        rews.append(r)
        dones.append(term or trunc)
        if term or trunc:
            x, h = env.reset()[0], torch.zeros(1, 1, HIDDEN)
    after, togo = 0.0, []
    for r, done in zip(reversed(rews), reversed(dones)):
        after = r + GAMMA * after * (1 - done)
        togo.insert(0, after)
    loss = loss_of(net, xs, acts, togo, dones, hs)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
# A function is called twice for one backward, with a weight by the place of the rows.
TWICE = ROLLOUT.replace(
    "    loss = loss_of(batch)\n",
    "    loss = weighted(batch)\n",
).replace(
    "def update(batch):",
    """def weighted(batch):
    total, weight = 0.0, 1.0
    for rows in torch.arange(len(batch)).chunk(2):
        total = total + weight * loss_of(batch[rows])
        weight = WEIGHT
    return total


def update(batch):""",
)
