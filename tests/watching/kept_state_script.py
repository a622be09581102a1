"""Scripts whose networks keep their state themselves: in the lines of a loop, inside
a trainer, behind a method of it, and in a DRQN that trains on sequences out of a memory."""

_REPEAT = """
import collections
import random

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class Repeat(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (5,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def seen(self, symbol):
        return np.eye(5, dtype=np.float32)[symbol] + 0.01 * self.left

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.symbol, more = (int(one) for one in self.np_random.integers(4, size=2))
        self.left = 8 + more
        return self.seen(self.symbol), {}

    def step(self, action):
        self.left -= 1
        return self.seen(4), float(action == self.symbol), self.left == 0, False, {}


random.seed(0)
torch.manual_seed(0)
"""
_POLICY = """
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.pi, self.v = nn.LSTMCell(5, 8), nn.Linear(8, 4), nn.Linear(8, 1)
        self.reset()

    def reset(self):
        self.state = None

    def forward(self, x):
        self.state = self.cell(x, self.state)
        h = self.state[0]
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def loss_of(logps, values, rewards):
    after, returns = 0.0, []
    for reward in reversed(rewards):
        after = reward + 0.95 * after
        returns.insert(0, after)
    returns = torch.tensor(returns)
    logps, values = torch.cat(logps), torch.cat(values)
    return ((returns - values) ** 2 - logps * (returns - values.detach())).sum()
"""
LINES = (
    _REPEAT
    + _POLICY
    + """
env, net = Repeat(), Policy()
optim = torch.optim.Adam(net.parameters(), 3e-3)
for episode in range(20):
    shown, _ = env.reset(seed=episode)
    net.reset()
    logps, values, rewards, over = [], [], [], False
    while not over:
        dist, value = net(torch.from_numpy(shown).unsqueeze(0))
        action = dist.sample()
        shown, reward, over, _, _ = env.step(action.item())
        logps.append(dist.log_prob(action))
        values.append(value)
        rewards.append(reward)
    loss = loss_of(logps, values, rewards)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
_TRAINER = (
    _REPEAT
    + _POLICY
    + """
class Trainer:
    def __init__(self):
        self.env, self.net = Repeat(), Policy()
        self.optim = torch.optim.Adam(self.net.parameters(), 3e-3)

    def episode(self, seed):
        shown, _ = self.env.reset(seed=seed)
        self.net.reset()
        logps, values, rewards, over = [], [], [], False
        while not over:
            ACT
            logps.append(logp)
            values.append(value)
            rewards.append(reward)
        return logps, values, rewards

    def act(self, shown):
        dist, value = self.net(torch.from_numpy(shown).unsqueeze(0))
        action = dist.sample()
        return action.item(), dist.log_prob(action), value

    def train(self):
        for seed in range(20):
            logps, values, rewards = self.episode(seed)
            logps, values = torch.cat(logps), torch.cat(values)
            loss = loss_of([logps], [values], rewards)
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()


Trainer().train()
"""
)
TRAINER = _TRAINER.replace(
    "ACT",
    """dist, value = self.net(torch.from_numpy(shown).unsqueeze(0))
            action = dist.sample()
            logp = dist.log_prob(action)
            shown, reward, over, _, _ = self.env.step(action.item())""",
)
METHOD = _TRAINER.replace(
    "ACT",
    """action, logp, value = self.act(shown)
            shown, reward, over, _, _ = self.env.step(action)""",
)
FUNCTION = (
    _REPEAT
    + """
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.pi = nn.LSTMCell(5, 8), nn.Linear(8, 4)
        self.logps, self.rewards = [], []
        self.begin()

    def begin(self):
        self.h, self.c = torch.zeros(1, 8), torch.zeros(1, 8)

    def forward(self, x):
        self.h, self.c = self.cell(x, (self.h, self.c))
        return self.pi(self.h).softmax(-1)


policy = Policy()
optim = torch.optim.Adam(policy.parameters(), 1e-2)


def select_action(shown):
    dist = Categorical(policy(torch.from_numpy(shown).unsqueeze(0)))
    action = dist.sample()
    policy.logps.append(dist.log_prob(action))
    return action.item()


def finish_episode():
    after, returns = 0.0, collections.deque()
    for reward in policy.rewards[::-1]:
        after = reward + 0.95 * after
        returns.appendleft(after)
    loss = torch.cat([-logp * gained for logp, gained in zip(policy.logps, returns)]).sum()
    optim.zero_grad()
    loss.backward()
    optim.step()
    del policy.rewards[:]
    del policy.logps[:]


env = Repeat()
for episode in range(20):
    shown, _ = env.reset(seed=episode)
    policy.begin()
    for _ in range(50):
        action = select_action(shown)
        shown, reward, over, _, _ = env.step(action)
        policy.rewards.append(reward)
        if over:
            break
    finish_episode()
"""
)
DETACHED_ALONE = (
    "        self.h, self.c = torch.zeros(1, 8), torch.zeros(1, 8)\n\n    def forward",
    "        begun = hasattr(self, 'h')\n"
    "        self.h = self.h.detach() if begun else torch.zeros(1, 8)\n"
    "        self.c = self.c.detach() if begun else torch.zeros(1, 8)\n\n    def forward",
)
IN_FRONT = ("returns.appendleft(after)", "returns.append(after)")
NEVER_RESET = (
    "    def reset(self):\n        self.state = None\n",
    "    state = None\n\n    def reset(self):\n"
    "        self.state = self.state and tuple(one.detach() for one in self.state)\n",
)

DRQN = (
    _REPEAT
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.q = nn.GRU(5, 8, batch_first=True), nn.Linear(8, 4)
        self.reset()

    def reset(self):
        self.state = None

    def forward(self, x):
        x, self.state = self.gru(x, self.state)
        return self.q(x)


env, net, target = Repeat(), Net(), Net()
target.load_state_dict(net.state_dict())
optim, memory = torch.optim.Adam(net.parameters(), 1e-3), collections.deque(maxlen=50)
for number in range(30):
    shown, _ = env.reset(seed=number)
    net.reset()
    episode, over = [], False
    while not over:
        with torch.no_grad():
            values = net(torch.from_numpy(shown).view(1, 1, -1))
        action = random.randrange(4) if random.random() < 0.3 else values.argmax().item()
        after, reward, over, _, _ = env.step(action)
        episode.append((shown, action, reward, after, over))
        shown = after
    memory.append(episode)
    if len(memory) < 8:
        continue
    drawn = random.sample(memory, 4)
    count = min(map(len, drawn))
    x, after = (
        torch.tensor(np.array([[step[at] for step in one[:count]] for one in drawn]))
        for at in (0, 3)
    )
    actions = torch.tensor([[step[1] for step in one[:count]] for one in drawn])
    rewards = torch.tensor([[step[2] for step in one[:count]] for one in drawn])
    ends = torch.tensor([[step[4] for step in one[:count]] for one in drawn]).float()
    net.reset()
    chosen = net(x).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        target.reset()
        best = target(torch.cat([x[:, :1], after], 1))[:, 1:].amax(-1)
    loss = (chosen - rewards - 0.95 * (1 - ends) * best).square().mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
    net.reset()
"""
)
OVER_ENDS = ("0.95 * (1 - ends) * best", "0.95 * best")
GIVEN = (
    (
        "        self.reset()\n\n    def reset(self):\n        self.state = None\n\n"
        "    def forward(self, x):\n        x, self.state = self.gru(x, self.state)\n"
        "        return self.q(x)\n",
        "\n    def forward(self, x, h):\n        x, h = self.gru(x, h)\n"
        "        return self.q(x), h\n",
    ),
    ("    net.reset()\n    episode", "    h = torch.zeros(1, 1, 8)\n    episode"),
    ("values = net(torch", "values, h = net(torch"),
    (".view(1, 1, -1))\n", ".view(1, 1, -1), h)\n"),
    ("        target.reset()\n", "        h = torch.zeros(1, 4, 8)\n"),
    ("after], 1))[:, 1:]", "after], 1), h)[0][:, 1:]"),
    (
        "    net.reset()\n    chosen = net(x)",
        "    h = torch.zeros(1, 4, 8)\n    chosen = net(x, h)[0]",
    ),
    ("    optim.step()\n    net.reset()\n", "    optim.step()\n"),
)
