"""A plain loop whose rollout is cut into slices of episodes, padded, and trained on in minibatches
of these: the advantages are normalised in each. And one with a model beside what acts."""

from __future__ import annotations

_HEAD = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

ENVS, STEPS, LONGEST, HIDDEN = 4, 60, 8, 16
torch.manual_seed(0)


def make():
    return gym.make("CartPole-v1")


def stepped():
    return gym.vector.SyncVectorEnv(
        [make] * ENVS, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
    )

"""
SLICES = (
    _HEAD
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, HIDDEN, batch_first=True)
        self.pi, self.v = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def forward(self, x, h):
        y, h = self.gru(x, h)
        return self.pi(y), self.v(y).squeeze(-1), h


envs, net = stepped(), Net()
optim = torch.optim.Adam(net.parameters(), 3e-4)
obs = torch.as_tensor(envs.reset(seed=0)[0])
h = torch.zeros(1, ENVS, HIDDEN)
for _ in range(4):
    kept = {name: torch.zeros(ENVS, STEPS) for name in ("a", "logp", "v", "r", "over")}
    seen, states = torch.zeros(ENVS, STEPS, 4), torch.zeros(ENVS, STEPS, HIDDEN)
    for t in range(STEPS):
        seen[:, t], states[:, t] = obs, h[0]
        with torch.no_grad():
            logits, v, h = net(obs.unsqueeze(1), h)
        dist = Categorical(logits=logits[:, 0])
        action = dist.sample()
        kept["a"][:, t], kept["v"][:, t] = action, v[:, 0]
        kept["logp"][:, t] = dist.log_prob(action)
        new, reward, terminated, truncated, _ = envs.step(action.numpy())
        over = torch.as_tensor(np.logical_or(terminated, truncated))
        kept["r"][:, t], kept["over"][:, t] = torch.as_tensor(reward), over
        h = h * (~over).float().view(1, -1, 1)
        obs = torch.as_tensor(new)
    with torch.no_grad():
        behind = net(obs.unsqueeze(1), h)[1][:, 0]
    gains, gain = torch.zeros(ENVS, STEPS), torch.zeros(ENVS)
    for t in reversed(range(STEPS)):
        going = 1 - kept["over"][:, t]
        delta = kept["r"][:, t] + 0.98 * behind * going - kept["v"][:, t]
        gain = delta + 0.9 * going * gain
        gains[:, t], behind = gain, kept["v"][:, t]
    places = []
    for row in range(ENVS):
        start = 0
        for end in [*kept["over"][row].nonzero().flatten().tolist(), STEPS - 1]:
            places += [(row, s, min(s + LONGEST, end + 1)) for s in range(start, end + 1, LONGEST)]
            start = end + 1
    for chosen in torch.randperm(len(places)).chunk(3):
        mine = [places[number] for number in chosen]
        x = nn.utils.rnn.pad_sequence([seen[row, s:e] for row, s, e in mine], batch_first=True)
        first = torch.stack([states[row, s] for row, s, _ in mine]).unsqueeze(0)
        logits, values, _ = net(x, first)
        there = torch.arange(x.shape[1]) < torch.tensor([[e - s] for _, s, e in mine])
        cut = {k: torch.cat([v[row, s:e] for row, s, e in mine]) for k, v in kept.items()}
        own = torch.cat([gains[row, s:e] for row, s, e in mine])
        weight = (own - own.mean()) / (own.std() + 1e-8)
        ratio = (Categorical(logits=logits[there]).log_prob(cut["a"]) - cut["logp"]).exp()
        error = (values[there] - cut["v"] - own).square().mean()
        loss = 0.5 * error - torch.min(ratio * weight, ratio.clamp(0.8, 1.2) * weight).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
"""
)
RUNS_ON = ("gain = delta + 0.9 * going * gain", "gain = delta + 0.9 * gain")

BESIDE = (
    _HEAD
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.pi = nn.GRUCell(4, HIDDEN), nn.Linear(HIDDEN, 2)
        self.v, self.model = nn.Linear(HIDDEN, 1), nn.Linear(HIDDEN, 4)

    def forward(self, x, over, h):
        h = self.cell(x, h * (1 - over).view(-1, 1))
        return self.pi(h), self.v(h).squeeze(-1), h

    def guess(self, h):
        return self.model(h)


envs, net = stepped(), Net()
optim = torch.optim.Adam(net.parameters(), 3e-4)
obs, over = torch.as_tensor(envs.reset(seed=0)[0]), torch.ones(ENVS)
h = torch.zeros(ENVS, HIDDEN)
for _ in range(4):
    h = h.detach()
    logps, values, rewards, overs, guesses, following = [], [], [], [], [], []
    for _ in range(16):
        logits, v, h = net(obs, over, h)
        dist = Categorical(logits=logits)
        action = dist.sample()
        new, reward, terminated, truncated, _ = envs.step(action.numpy())
        guesses.append(net.guess(h))
        obs = torch.as_tensor(new)
        over = torch.as_tensor(np.logical_or(terminated, truncated)).float()
        logps.append(dist.log_prob(action))
        values.append(v)
        rewards.append(torch.as_tensor(reward).float())
        overs.append(over)
        following.append(obs)
    with torch.no_grad():
        after = net(obs, over, h)[1]
    returns = []
    for reward, ended in zip(reversed(rewards), reversed(overs)):
        after = reward + 0.98 * after * (1 - ended)
        returns.insert(0, after)
    gain = torch.stack(returns) - torch.stack(values)
    error = (torch.stack(guesses) - torch.stack(following)).square().mean()
    loss = gain.square().mean() - (torch.stack(logps) * gain.detach()).mean() + error
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
DETACHED = (
    "h = self.cell(x, h * (1 - over).view(-1, 1))",
    "h = self.cell(x, h * (1 - over).view(-1, 1)).detach()",
)

# Rows and steps in one dimension, and an argument that says how many steps a row has; the state is
# an entry of the minibatch, and the function gives its name another value in either branch.
FLAT = (
    (
        "    def forward(self, x, h):\n        y, h = self.gru(x, h)\n",
        """    def forward(self, x, h, length=1):
        if length == 1:
            y, h = self.gru(x.unsqueeze(1), h)
        else:
            y, h = self.gru(x.reshape(-1, length, 4), h)
""",
    ),
    ("net(obs.unsqueeze(1), h)\n        dist", "net(obs, h)\n        dist"),
    ("behind = net(obs.unsqueeze(1), h)", "behind = net(obs, h)"),
    ("        first = torch.stack(", '        batch = {"h": torch.stack('),
    ("for row, s, _ in mine]).unsqueeze(0)\n", "for row, s, _ in mine]).unsqueeze(0)}\n"),
    ("net(x, first)", 'net(x.flatten(0, 1), batch["h"], LONGEST)'),
)
# Pieces that begin inside of episodes begin with zeros, where acting had a state.
FROM_ZEROS = ("torch.stack([states[row, s] for", "torch.stack([0 * states[row, s] for")
STATE_BEHIND = (
    "        seen[:, t], states[:, t] = obs, h[0]\n        with torch.no_grad():\n"
    "            logits, v, h = net(obs.unsqueeze(1), h)\n",
    "        seen[:, t] = obs\n        with torch.no_grad():\n"
    "            logits, v, h = net(obs.unsqueeze(1), h)\n        states[:, t] = h[0]\n",
)
