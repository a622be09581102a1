"""Loops over a plain env that train on sequences out of a memory of their own: of episodes that
hold no states (DRQN), and of chunks that hold the state that each began with (R2D2)."""

from __future__ import annotations

Change = tuple[str, str]

DRQN = """import copy
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

LENGTH, BATCH, GAMMA = 10, 6, 0.99


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 24)
        self.lstm = nn.LSTM(24, 24, batch_first=True)
        self.head = nn.Linear(24, 2)

    def forward(self, x, state=None):
        out, state = self.lstm(torch.relu(self.encoder(x)), state)
        return self.head(out), state


def sample(memory):
    rows = []
    for episode in random.sample([one for one in memory if len(one) >= LENGTH], BATCH):
        begin = random.randint(0, len(episode) - LENGTH)
        rows.append(episode[begin : begin + LENGTH])
    columns = [np.array([[step[k] for step in row] for row in rows]) for k in range(5)]
    seen, actions, rewards, following, over = map(torch.tensor, columns)
    return seen, actions, rewards.float(), following, over.float()


def main():
    torch.manual_seed(0)
    random.seed(0)
    env, net = gym.make("CartPole-v1"), Net()
    env.reset(seed=0)
    target, memory = copy.deepcopy(net), deque(maxlen=100)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(40):
        obs, state, over, episode = env.reset()[0], None, False, []
        while not over:
            with torch.no_grad():
                q, state = net(torch.as_tensor(obs).view(1, 1, -1), state)
            action = random.randrange(2) if random.random() < 0.5 else int(q.argmax())
            after, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            episode.append((obs, action, reward, after, float(terminated)))
            obs = after
        memory.append(episode)
        if sum(len(one) >= LENGTH for one in memory) < BATCH + 2:
            continue
        seen, actions, rewards, following, ended = sample(memory)
        q, _ = net(seen)
        with torch.no_grad():
            best = target(following)[0].max(-1).values
        goal = rewards + GAMMA * (1 - ended) * best
        chosen = q.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        loss = F.mse_loss(chosen, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
"""
SHUFFLED: Change = (
    "rows.append(episode[begin : begin + LENGTH])",
    "rows.append(random.sample(episode, LENGTH))",
)
OVER_ENDS: Change = (" * (1 - ended) * best", " * best")
CUT_SOON: Change = ('gym.make("CartPole-v1")', 'gym.make("CartPole-v1", max_episode_steps=13)')
LIMITS_END: Change = ("reward, after, float(terminated)))", "reward, after, float(over)))")
SAME_NEXT: Change = ("reward, after, float(terminated)))", "reward, obs, float(terminated)))")
LATER_NEXT: Change = ("float(), following, over", "float(), following.roll(-1, 1), over")
OTHER_ACTIONS: Change = ("actions.unsqueeze(-1))", "actions.roll(1, 1).unsqueeze(-1))")
TIME_FIRST: Change = ("batch_first=True", "batch_first=False")
LONGER: Change = ("LENGTH, BATCH, GAMMA = 10", "LENGTH, BATCH, GAMMA = 14")
_SUMMED = """        n, last = 3, LENGTH - 2
        goal, going = torch.zeros(BATCH, last), torch.ones(BATCH, last)
        for k in range(n):
            goal = goal + GAMMA**k * going * rewards[:, k : last + k]
            going = going * (1 - ended[:, k : last + k])
        goal = goal + GAMMA**n * going * best[:, n - 1 :]
"""
N_STEP: Change = ("        goal = rewards + GAMMA * (1 - ended) * best\n", _SUMMED)
CUT: Change = ("F.mse_loss(chosen, goal)", "F.mse_loss(chosen[:, :-2], goal)")
ONE_EARLY: Change = ("best[:, n - 1 :]", "best[:, n - 2 : -1]")
PAIRED: Change = ("F.mse_loss(chosen, goal)", "F.mse_loss(chosen.reshape(-1), goal.reshape(-1, 1))")

R2D2 = """import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


COLUMNS = ("obs", "action", "reward", "done", "next_obs")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(4, 24), nn.Linear(24, 2)

    def forward(self, x, h):
        y, h = self.gru(x, h)
        return self.out(y), h


def stacked(name, values):
    kind = torch.long if name == "action" else torch.float32
    return torch.as_tensor(np.array(values), dtype=kind)


class Memory:
    def __init__(self, size, length):
        self.rows, self.length = deque(maxlen=size), length

    def add(self, row):
        self.rows.append(row)

    def sample(self, n):
        rows = random.sample(list(self.rows), n)
        cat = {name: torch.stack([row[name] for row in rows], 1) for name in COLUMNS}
        cat["hidden"] = torch.cat([r["hidden"] for r in rows], 1)
        return cat


class Agent:
    def __init__(self):
        self.net, self.target = Net(), Net()
        self.target.load_state_dict(self.net.state_dict())
        self.optim = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    @torch.no_grad()
    def act(self, obs, h):
        q, h = self.net(torch.as_tensor(obs).view(1, 1, -1), h)
        if random.random() < 0.3:
            return random.randrange(2), h
        return int(q.argmax()), h

    def update(self, batch):
        q, _ = self.net(batch["obs"], batch["hidden"])
        with torch.no_grad():
            seen = torch.cat([batch["obs"][:1], batch["next_obs"]])
            best = self.target(seen, batch["hidden"])[0][1:].max(-1).values
        goal = batch["reward"] + 0.98 * (1 - batch["done"]) * best
        loss = F.smooth_l1_loss(q.gather(-1, batch["action"].unsqueeze(-1)).squeeze(-1), goal)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()


def main():
    random.seed(0)
    torch.manual_seed(0)
    env, agent, memory = gym.make("CartPole-v1"), Agent(), Memory(500, 5)
    step = 0
    for episode in range(60):
        obs, _ = env.reset(seed=episode)
        h, done, row = torch.zeros(1, 1, 24), False, None
        while not done:
            if row is None:
                row = {"hidden": h, **{name: [] for name in COLUMNS}}
            action, h = agent.act(obs, h)
            nobs, r, term, trunc, _ = env.step(action)
            done = term or trunc
            for k, v in zip(COLUMNS, (obs, action, r, float(term), nobs)):
                row[k].append(v)
            obs = nobs
            if len(row["obs"]) == memory.length:
                memory.add({k: v if k == "hidden" else stacked(k, v) for k, v in row.items()})
                row = None
        if len(memory.rows) > 12:
            agent.update(memory.sample(6))


main()
"""
FROM_ZERO: Change = (
    'self.net(batch["obs"], batch["hidden"])',
    'self.net(batch["obs"], torch.zeros_like(batch["hidden"]))',
)
STORED_AS_ZERO: Change = ('{"hidden": h, **', '{"hidden": torch.zeros_like(h), **')
OF_OTHER_ROWS: Change = (
    'torch.cat([r["hidden"] for r in rows], 1)',
    'torch.cat([r["hidden"] for r in rows], 1).roll(1, 1)',
)
TARGETS_FROM_ZERO: Change = ('self.target(seen, batch["hidden"])', "self.target(seen, None)")

# Recurrent TD3: rows of whole episodes, one observation longer; the actor every second update.
TD3 = """import copy
import random

import gymnasium as gym
import numpy as np
import torch
from torch import nn

LENGTH, ROWS = 30, 4


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(3, 24, batch_first=True), nn.Linear(24, 1)

    def forward(self, seen, state=None):
        y, state = self.lstm(seen, state)
        return 2 * torch.tanh(self.out(y)), state


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(4, 24, batch_first=True), nn.Linear(24, 1)

    def forward(self, seen, actions):
        return self.out(self.lstm(torch.cat([seen, actions], -1))[0])


class Agent:
    def __init__(self):
        self.actor, self.critic = Actor(), Critic()
        self.actor_target = copy.deepcopy(self.actor)
        self.critic_target = copy.deepcopy(self.critic)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.updates = 0

    def select(self, seen, state):
        with torch.no_grad():
            action, state = self.actor(torch.as_tensor(seen).view(1, 1, -1), state)
        return action.view(-1).numpy(), state

    def learn(self, memory):
        self.updates += 1
        rows = random.sample(memory, ROWS)
        seen, actions, rewards, ends = (
            torch.as_tensor(np.stack([row[k] for row in rows]), dtype=torch.float32)
            for k in range(4)
        )
        with torch.no_grad():
            following = self.critic_target(seen, self.actor_target(seen)[0])[:, 1:]
            goal = rewards + 0.99 * (1 - ends) * following
        critic_loss = (self.critic(seen[:, :-1], actions) - goal).square().mean()
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()
        if self.updates % 2 == 0:
            wanted = self.actor(seen[:, :-1])[0]
            actor_loss = -self.critic(seen[:, :-1], wanted).mean()
            self.actor_optimizer.zero_grad()
            actor_loss.backward()
            self.actor_optimizer.step()
            pairs = ((self.actor, self.actor_target), (self.critic, self.critic_target))
            for one, target in pairs:
                for mine, theirs in zip(one.parameters(), target.parameters(), strict=True):
                    theirs.data.copy_(0.01 * mine.data + 0.99 * theirs.data)


def main():
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    env, agent, memory = gym.make("Pendulum-v1", max_episode_steps=LENGTH), Agent(), []
    for episode in range(20):
        now, state, over = env.reset(seed=episode)[0], None, False
        seen, actions, rewards, ends = [now], [], [], []
        while not over:
            action, state = agent.select(now, state)
            action = (action + 0.2 * np.random.randn(1)).clip(-2, 2).astype(np.float32)
            now, reward, terminated, over, _ = env.step(action)
            seen.append(now)
            actions.append(action)
            rewards.append([reward])
            ends.append([float(terminated)])
        memory.append((seen, actions, rewards, ends))
        if episode > 4:
            agent.learn(memory)


main()
"""
OTHER_TARGETS: Change = ("self.critic_target(seen, ", "self.critic_target(seen.roll(1, 0), ")


def changed(text: str, *changes: Change) -> str:
    """The script with every ``(old, new)`` done."""
    for old, new in changes:
        assert old in text, f"the script has no {old!r} any more"
        text = text.replace(old, new)
    return text
