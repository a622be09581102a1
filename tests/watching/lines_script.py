"""Plain loops in which no function acts: a network is called in the loop's own lines, and trained
in them as well, or by an object that holds the rollout."""

from __future__ import annotations

HEAD = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

HIDDEN, GAMMA = 16, 0.98
torch.manual_seed(2)
"""

LOOP = (
    HEAD
    + """
STEPS = 48
env = gym.make("CartPole-v1")
enc, cell = nn.Linear(4, 12), nn.GRUCell(12, HIDDEN)
actor, critic = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)
optim = torch.optim.Adam([p for m in (enc, cell, actor, critic) for p in m.parameters()])
obs, _ = env.reset(seed=2)
h, done, total = torch.zeros(1, HIDDEN), False, 0.0
for update in range(6):
    first = h
    xs, acts, rews, dones, starts, guesses = [], [], [], [], [], []
    for t in range(STEPS):
        x = torch.tensor(obs).unsqueeze(0)
        with torch.no_grad():
            h = cell(torch.tanh(enc(x)), h)
            dist = Categorical(logits=actor(h))
            guesses.append(critic(h).item())
        a = dist.sample()
        xs.append(x)
        starts.append(done)
        acts.append(a)
        obs, r, term, trunc, _ = env.step(a.item())
        done = term or trunc
        total += r
        rews.append(r)
        dones.append(done)
        if done:
            obs, _ = env.reset()
            h = torch.zeros(1, HIDDEN)
    after, found = 0.0, []
    for r, d in zip(reversed(rews), reversed(dones)):
        after = r + GAMMA * after * (1 - d)
        found.append(after)
    state, told, values = first, [], []
    for x, a, s in zip(xs, acts, starts):
        state = torch.zeros(1, HIDDEN) if s else state
        state = cell(torch.tanh(enc(x)), state)
        told.append(Categorical(logits=actor(state)).log_prob(a))
        values.append(critic(state).squeeze())
    gain = torch.tensor(found[::-1]) - torch.stack(values)
    loss = gain.square().mean() - (torch.cat(told) * gain.detach()).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
LOOP_FAULTS = {  # by the check that names it
    "LS701": (" * (1 - d)", ""),
    "BD301": ("state = torch.zeros(1, HIDDEN) if s else state", "pass"),
    "CL403": ("        h = torch.zeros(1, HIDDEN)\n    after", "        pass\n    after"),
    "RP507": ("state, told, values = first", "state, told, values = torch.zeros(1, HIDDEN)"),
}

TRAINER = (
    HEAD
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.gru = nn.Linear(4, HIDDEN), nn.GRU(HIDDEN, HIDDEN)
        self.pi, self.v = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def forward(self, x, h, done):
        x, outs = torch.relu(self.fc(x)), []
        for now, over in zip(x, done):
            h = h * (1 - over).view(1, -1, 1)
            out, h = self.gru(now.unsqueeze(0), h)
            outs.append(out)
        z = torch.cat(outs)
        return self.pi(z), self.v(z).squeeze(-1), h


def single(value):
    return torch.as_tensor(value, dtype=torch.float32)


class Trainer:
    def __init__(self, n=4, T=32):
        same = gym.vector.AutoresetMode.SAME_STEP
        self.envs = gym.vector.SyncVectorEnv(
            [lambda: gym.make("CartPole-v1")] * n, autoreset_mode=same
        )
        self.net, self.T = Net(), T
        self.optim = torch.optim.Adam(self.net.parameters(), lr=3e-4)
        self.obs, _ = self.envs.reset(seed=1)
        self.h, self.done = torch.zeros(1, n, HIDDEN), np.zeros(n)

    def collect(self):
        data = {k: [] for k in ("obs", "act", "told", "val", "rew", "done")}
        first = self.h.clone()
        for _ in range(self.T):
            obs, done = single(self.obs), single(self.done)
            with torch.no_grad():
                logits, value, self.h = self.net(obs[None], self.h, done[None])
            dist = Categorical(logits=logits[0])
            a = dist.sample()
            seen, rew, term, trunc, _ = self.envs.step(a.numpy())
            for k, v in zip(data, (obs, a, dist.log_prob(a), value[0], single(rew), done)):
                data[k].append(v)
            self.obs, self.done = seen, np.logical_or(term, trunc).astype(np.float32)
        return {k: torch.stack(v) for k, v in data.items()}, first

    def update(self, data, first):
        with torch.no_grad():
            _, last, _ = self.net(single(self.obs)[None], self.h, single(self.done)[None])
        gains, gae = torch.zeros_like(data["rew"]), 0
        dones = torch.cat([data["done"], single(self.done)[None]])
        values = torch.cat([data["val"], last])
        for t in reversed(range(self.T)):
            mask = 1 - dones[t + 1]
            delta = data["rew"][t] + GAMMA * values[t + 1] * mask - values[t]
            gae = delta + GAMMA * 0.95 * mask * gae
            gains[t] = gae
        for _ in range(2):
            logits, value, _ = self.net(data["obs"], first, data["done"])
            ratio = (Categorical(logits=logits).log_prob(data["act"]) - data["told"]).exp()
            best = torch.min(ratio * gains, ratio.clamp(0.8, 1.2) * gains).mean()
            loss = (value - gains - data["val"]).square().mean() - best
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()


trainer = Trainer()
for _ in range(4):
    trainer.update(*trainer.collect())
"""
)
TRAINER_FAULTS = {
    "LS701": ("mask * gae", "gae"),
    "RP504": ("first = self.h.clone()", "first = torch.zeros_like(self.h)"),
}

EPISODES = (
    HEAD
    + """
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.logits = nn.LSTM(4, HIDDEN, batch_first=True), nn.Linear(HIDDEN, 2)

    def forward(self, x, state):
        out, state = self.lstm(x, state)
        return self.logits(out), state

    def act(self, x, state):
        logits, state = self(torch.FloatTensor(x).view(1, 1, -1), state)
        return Categorical(logits=logits[0, 0]).sample().item(), state


def blank():
    return torch.zeros(1, 1, HIDDEN), torch.zeros(1, 1, HIDDEN)


env, policy = gym.make("CartPole-v1"), Policy()
optim = torch.optim.Adam(policy.parameters(), lr=1e-3)
state = blank()
for episode in range(8):
    x, _ = env.reset(seed=episode)
    state = blank()
    xs, acts, rews, done = [], [], [], False
    while not done:
        a, state = policy.act(x, state)
        seen, r, term, trunc, _ = env.step(a)
        xs.append(x)
        acts.append(a)
        rews.append(r)
        x, done = seen, term or trunc
    logits, _ = policy(torch.FloatTensor(np.array(xs))[None], blank())
    togo = torch.FloatTensor(rews).flip(0).cumsum(0).flip(0)
    told = Categorical(logits=logits[0]).log_prob(torch.tensor(acts))
    loss = -(told * togo).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
EPISODE_FAULTS = {"CL403": ("    state = blank()\n    xs", "    xs")}

GRAPHED = (
    HEAD
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, HIDDEN)
        self.pi, self.v = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def forward(self, x, state):
        h, c = self.cell(x, state)
        return self.pi(h), self.v(h), (h, c)


env, net = gym.make("CartPole-v1"), Net()
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.as_tensor(env.reset(seed=0)[0]).unsqueeze(0)
state, done = (torch.zeros(1, HIDDEN), torch.zeros(1, HIDDEN)), False
for update in range(8):
    state = tuple(one.detach() for one in state)
    values, told, rews, dones = [], [], [], []
    for step in range(40):
        logits, value, state = net(x, state)
        dist = Categorical(logits=logits)
        a = dist.sample()
        told.append(dist.log_prob(a))
        values.append(value)
        seen, r, term, trunc, _ = env.step(a.item())
        done = term or trunc
        rews.append(r)
        dones.append(done)
        if done:
            seen, _ = env.reset()
            state = (torch.zeros(1, HIDDEN), torch.zeros(1, HIDDEN))
        x = torch.as_tensor(seen).unsqueeze(0)
    after, loss = 0.0, 0.0
    for t in reversed(range(40)):
        after = rews[t] + GAMMA * after * (1 - dones[t])
        gain = after - values[t]
        loss = loss + gain.square().sum() - (told[t] * gain.detach()).sum()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
GRAPHED_FAULTS = {
    "LS701": (" * (1 - dones[t])", ""),
    "CL403": (
        "state = (torch.zeros(1, HIDDEN), torch.zeros(1, HIDDEN))\n        x",
        "pass\n        x",
    ),
}
