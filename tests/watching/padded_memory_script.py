"""Loops over a plain env that train on rows out of a memory of their own which zeros follow: of
whole episodes, one observation longer than their steps, whose actions and rewards stand one step
late; and of chunks with the state that each began with, of an env whose steps show the same again
and again, drawn by priorities."""

from __future__ import annotations

Change = tuple[str, str]

EPISODES = """import copy

import gymnasium as gym
import numpy as np
import torch
from torch import nn

LONGEST = 24


class Stopped(gym.Wrapper):
    def __init__(self):
        super().__init__(gym.make("Pendulum-v1", max_episode_steps=LONGEST))

    def step(self, action):
        seen, reward, _, over, info = self.env.step(action)
        return seen, reward, bool(abs(seen[2]) > 4.5), over, info


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(3, 24, batch_first=True), nn.Linear(24, 1)

    def forward(self, seen, state=None):
        y, state = self.gru(seen, state)
        return torch.tanh(self.out(y)), state


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(3, 24, batch_first=True), nn.Linear(25, 1)

    def forward(self, seen, actions):
        return self.out(torch.cat([self.gru(seen)[0], actions], -1))


class Rows:
    def __init__(self, size):
        self.seen = np.zeros((size, LONGEST + 1, 3), np.float32)
        self.actions = np.zeros((size, LONGEST + 1, 1), np.float32)
        self.rewards = np.zeros((size, LONGEST + 1, 1), np.float32)
        self.ends = np.zeros((size, LONGEST, 1), np.float32)
        self.there = np.zeros((size, LONGEST, 1), np.float32)
        self.count = 0

    def add(self, seen, actions, rewards, over):
        row, steps = self.count, len(actions)
        self.seen[row, : steps + 1] = seen
        self.actions[row, 1 : steps + 1] = actions
        self.rewards[row, 1 : steps + 1, 0] = rewards
        self.ends[row, steps - 1], self.there[row, :steps] = over, 1
        self.count += 1

    def draw(self, count):
        rows = np.random.randint(0, self.count, count)
        held = (self.seen, self.actions, self.rewards, self.ends, self.there)
        return tuple(torch.as_tensor(one[rows]) for one in held)


class Agent:
    def __init__(self):
        self.actor, self.critic = Actor(), Critic()
        self.target = copy.deepcopy(self.critic)
        weights = [*self.actor.parameters(), *self.critic.parameters()]
        self.optim = torch.optim.Adam(weights, 1e-3)

    def update(self, drawn):
        seen, before, rewards, ends, there = drawn
        actions, rewards = before[:, 1:], rewards[:, 1:]
        with torch.no_grad():
            following = self.target(seen, self.actor(seen)[0])[:, 1:]
            goal = 0.1 * rewards + 0.98 * (1 - ends) * following
        now = seen[:, :-1]
        error = (self.critic(now, actions) - goal).square()
        gain = self.critic(now, self.actor(now)[0])
        loss = ((error - 0.1 * gain) * there).sum() / there.sum()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        for mine, theirs in zip(self.target.parameters(), self.critic.parameters()):
            mine.data.lerp_(theirs.data, 0.01)


def main():
    torch.manual_seed(0)
    np.random.seed(0)
    env, agent, rows = Stopped(), Agent(), Rows(40)
    for episode in range(16):
        now, state, over = env.reset(seed=episode)[0], None, False
        seen, actions, rewards = [now], [], []
        while not over:
            with torch.no_grad():
                action, state = agent.actor(torch.as_tensor(now).view(1, 1, -1), state)
            action = action.view(-1).numpy()
            now, reward, terminated, truncated, _ = env.step(2.0 * action)
            over = terminated or truncated
            seen.append(now)
            actions.append(action)
            rewards.append(reward)
        rows.add(np.stack(seen), np.stack(actions), np.array(rewards), float(terminated))
        if episode > 5:
            agent.update(rows.draw(6))


main()
"""
PADDING_COUNTS: Change = (
    "((error - 0.1 * gain) * there).sum() / there.sum()",
    "(error - 0.1 * gain).mean()",
)
OVER_ENDS: Change = (" * (1 - ends) * following", " * following")
OWN_VALUE: Change = ("self.actor(seen)[0])[:, 1:]", "self.actor(seen)[0])[:, :-1]")

CHUNKS = """import random

import gymnasium as gym
import numpy as np
import torch
from torch import nn

BURN, LEARN, HIDDEN = 3, 5, 24


class Corridor(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def shown(self):
        side = self.side if self.steps == 0 else 0
        return np.array([side, self.place / 4, self.place == 4], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side, self.place, self.steps = int(self.np_random.integers(2)) * 2 - 1, 0, 0
        return self.shown(), {}

    def step(self, action):
        self.steps += 1
        ended = self.place == 4 and action != 2
        reward = float((action == 1) == (self.side > 0)) if ended else -0.01
        if not ended:
            self.place = min(self.place + (action == 2 or self.place % 2), 4)
        return self.shown(), reward, ended, self.steps > 20, {}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(3, HIDDEN, batch_first=True), nn.Linear(HIDDEN, 3)

    def unroll(self, seen, state):
        y, state = self.lstm(seen, state)
        return self.out(y), state


class Memory:
    def __init__(self):
        self.rows, self.chances = [], []

    def add(self, seen, actions, rewards, ends, states):
        for begin in range(0, max(len(actions) - BURN, 1), LEARN):
            steps = min(BURN + LEARN + 1, len(actions) - begin)
            end, left = begin + steps, BURN + LEARN + 1 - steps
            row = {
                "seen": np.pad(np.stack(seen[begin:end]), ((0, left), (0, 0))),
                "actions": np.pad(np.array(actions[begin:end]), (0, left)),
                "rewards": np.pad(np.array(rewards[begin:end], np.float32), (0, left)),
                "ends": np.pad(np.array(ends[begin:end], np.float32), (0, left)),
                "there": np.pad(np.ones(steps, np.float32), (0, left)),
                "h": states[begin][0][:, 0],
                "c": states[begin][1][:, 0],
            }
            self.rows.append(row)
            self.chances.append(1.0 + random.random())

    def draw(self, count):
        chances = np.array(self.chances) / np.sum(self.chances)
        drawn = np.random.choice(len(self.rows), count, p=chances)
        rows = [self.rows[n] for n in drawn]
        columns = ("seen", "actions", "rewards", "ends", "there")
        batch = {name: torch.as_tensor(np.stack([row[name] for row in rows])) for name in columns}
        state = tuple(torch.stack([row[name] for row in rows], 1) for name in "hc")
        weights = (len(self.rows) * chances[drawn]) ** -0.5
        return batch, state, torch.as_tensor(weights / weights.max(), dtype=torch.float32)


def update(net, target, optim, memory):
    batch, state, weights = memory.draw(8)
    with torch.no_grad():
        state_now = net.unroll(batch["seen"][:, :BURN], state)[1]
        state_then = target.unroll(batch["seen"][:, :BURN], state)[1]
    seen, there = batch["seen"][:, BURN:], batch["there"][:, BURN:]
    rewards, ends = batch["rewards"][:, BURN:], batch["ends"][:, BURN:]
    q = net.unroll(seen, state_now)[0]
    with torch.no_grad():
        best = target.unroll(seen, state_then)[0].max(-1).values[:, 1:]
        goal = rewards[:, :LEARN] + 0.97 * (1 - ends[:, :LEARN]) * there[:, 1:] * best
    chosen = q.gather(-1, batch["actions"][:, BURN:].unsqueeze(-1)).squeeze(-1)[:, :LEARN]
    error = (chosen - goal).square() * there[:, :LEARN]
    loss = (weights * error.sum(1)).sum() / there[:, :LEARN].sum().clamp(min=1)
    optim.zero_grad()
    loss.backward()
    optim.step()


def main():
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    env, net, target, memory = Corridor(), Net(), Net(), Memory()
    target.load_state_dict(net.state_dict())
    optim = torch.optim.Adam(net.parameters(), 1e-3)
    for episode in range(24):
        now, over = env.reset(seed=episode)[0], False
        state = torch.zeros(1, 1, HIDDEN), torch.zeros(1, 1, HIDDEN)
        seen, actions, rewards, ends, states = [], [], [], [], []
        while not over:
            seen.append(now)
            states.append(state)
            with torch.no_grad():
                q, state = net.unroll(torch.from_numpy(now).view(1, 1, -1), state)
            action = random.randrange(3) if random.random() < 0.5 else int(q.argmax())
            now, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            actions.append(action)
            rewards.append(reward)
            ends.append(float(terminated))
        memory.add(seen, actions, rewards, ends, states)
        if episode > 9:
            update(net, target, optim, memory)
        if episode % 5 == 0:
            target.load_state_dict(net.state_dict())


main()
"""
STATE_BEHIND: Change = (
    "            states.append(state)\n            with torch.no_grad():\n"
    "                q, state = net.unroll(torch.from_numpy(now).view(1, 1, -1), state)\n",
    "            with torch.no_grad():\n"
    "                q, state = net.unroll(torch.from_numpy(now).view(1, 1, -1), state)\n"
    "            states.append(state)\n",
)
FROM_ZEROS: Change = (
    "net.unroll(seen, state_now)",
    "net.unroll(seen, tuple(map(torch.zeros_like, state_now)))",
)
ALL_COUNT: Change = (" * there[:, :LEARN]\n", "\n")
COLD_TARGET: Change = (
    "target.unroll(seen, state_then)",
    "target.unroll(seen, tuple(map(torch.zeros_like, state_then)))",
)
# Acting by a function, so that the file that is kept can name it.
BY_FUNCTION: tuple[Change, ...] = (
    (
        "def main():\n",
        """def act(net, now, state):
    with torch.no_grad():
        q, state = net.unroll(torch.from_numpy(now).view(1, 1, -1), state)
    return (random.randrange(3) if random.random() < 0.5 else int(q.argmax())), state


def main():
""",
    ),
    (
        """            with torch.no_grad():
                q, state = net.unroll(torch.from_numpy(now).view(1, 1, -1), state)
            action = random.randrange(3) if random.random() < 0.5 else int(q.argmax())
""",
        "            action, state = act(net, now, state)\n",
    ),
    ("\n\nmain()\n", '\n\nif __name__ == "__main__":\n    main()\n'),
)
