"""``rnncheck run``: off-policy loops that are trained at every step behind random actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

SCRIPT = """
import copy
import random

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional as F

HIDDEN, BATCH, GAMMA, START = 24, 8, 0.95, 200


class Hidden(gym.Env):
    observation_space = spaces.Box(-5, 5, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.goal, self.x, self.t = self.np_random.uniform(-1, 1), 0.0, 0
        self.length = int(self.np_random.integers(6, 15))
        return np.array([self.x, self.goal], np.float32), {}

    def step(self, action):
        self.x += 0.3 * float(action[0])
        self.t += 1
        done = self.t >= self.length
        return np.array([self.x, 0.0], np.float32), -abs(self.x - self.goal), done, False, {}


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, HIDDEN, batch_first=True)
        self.head = nn.Sequential(nn.Linear(HIDDEN, 32), nn.ReLU(), nn.Linear(32, 1), nn.Tanh())

    def forward(self, obs, hidden=None):
        x, hidden = self.lstm(obs, hidden)
        return self.head(x), hidden


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTM(3, HIDDEN, batch_first=True)
        self.lstm2 = nn.LSTM(3, HIDDEN, batch_first=True)
        self.q1, self.q2 = nn.Linear(HIDDEN, 1), nn.Linear(HIDDEN, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return self.q1(self.lstm1(x)[0]), self.q2(self.lstm2(x)[0])


class ReplayBuffer:
    def __init__(self, capacity=500):
        self.episodes, self.current, self.capacity = [], [], capacity

    def push(self, *step):
        self.current.append(step)
        if step[-1]:
            self.episodes.append(self.current)
            self.current = []

    def sample(self, n):
        chosen = random.sample(self.episodes, n)
        longest = max(map(len, chosen))
        obs = np.zeros((n, longest + 1, 2), np.float32)
        act = np.zeros((n, longest, 1), np.float32)
        rew, done, mask = (np.zeros((n, longest, 1), np.float32) for _ in range(3))
        for row, episode in enumerate(chosen):
            for t, (o, a, r, o2, d) in enumerate(episode):
                obs[row, t], obs[row, t + 1], act[row, t] = o, o2, a
                rew[row, t], done[row, t], mask[row, t] = r, d, 1
        return tuple(map(torch.as_tensor, (obs, act, rew, done, mask)))


class Agent:
    def __init__(self):
        self.actor, self.critic = Actor(), Critic()
        self.actor_target = copy.deepcopy(self.actor)
        self.critic_target = copy.deepcopy(self.critic)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), 1e-3)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), 1e-3)
        self.updates = 0

    @torch.no_grad()
    def act(self, obs, hidden):
        a, hidden = self.actor(torch.as_tensor(obs).view(1, 1, -1), hidden)
        return (a.view(-1).numpy() + 0.1 * np.random.randn(1)).clip(-1, 1), hidden

    def update(self, batch):
        obs, act, rew, done, mask = batch
        with torch.no_grad():
            a2, _ = self.actor_target(obs)
            noise = (torch.randn_like(a2) * 0.1).clamp(-0.3, 0.3)
            a2 = (a2 + noise).clamp(-1, 1)
            prev = torch.cat([act, a2[:, -1:]], 1)
            q1, q2 = self.critic_target(obs, a2)
            target = rew + GAMMA * (1 - done) * torch.min(q1, q2)[:, 1:]
        q1, q2 = self.critic(obs[:, :-1], act)
        critic_loss = (((q1 - target) ** 2 + (q2 - target) ** 2) * mask).sum() / mask.sum()
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        self.updates += 1
        if self.updates % 2 == 0:
            a, _ = self.actor(obs[:, :-1])
            actor_loss = -(self.critic(obs[:, :-1], a)[0] * mask).sum() / mask.sum()
            self.actor_opt.zero_grad()
            actor_loss.backward()
            self.actor_opt.step()
            self.follow(self.actor, self.actor_target)
            self.follow(self.critic, self.critic_target)

    @staticmethod
    def follow(net, slow):
        for p, tp in zip(net.parameters(), slow.parameters()):
            tp.data.mul_(0.99).add_(0.01 * p.data)


def main():
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    env, agent, memory = Hidden(), Agent(), ReplayBuffer()
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    hidden = None
    for t in range(1500):
        if t < START:
            action = env.action_space.sample()
        else:
            action, hidden = agent.act(obs, hidden)
        after, reward, terminated, truncated, _ = env.step(action)
        memory.push(obs, action, reward, after, terminated)
        obs = after
        if terminated or truncated:
            (obs, _), hidden = env.reset(), None
        if t >= START:
            agent.update(memory.sample(BATCH))


main()
"""
EXPLORES = (
    "            action, hidden = agent.act(obs, hidden)\n",
    "            action, hidden = agent.act(obs, hidden)\n"
    "            if random.random() < 0.2:\n"
    "                action = env.action_space.sample()\n",
)
FROZEN = (  # while the actor is trained, which the script is ended in
    ("if self.updates % 2 == 0:", "if True:"),
    (
        "            actor_loss = ",
        "            self.critic.requires_grad_(False)\n            actor_loss = ",
    ),
    (
        "self.actor_opt.step()\n",
        "self.actor_opt.step()\n            self.critic.requires_grad_(True)\n",
    ),
)
FILLED_THERE = (
    ("agent.update(memory.sample(BATCH))", "agent.update(random.sample(memory.episodes, BATCH))"),
    (
        "        obs, act, rew, done, mask = batch\n",
        "        longest = max(map(len, batch))\n"
        "        obs, act = torch.zeros(BATCH, longest + 1, 2), torch.zeros(BATCH, longest, 1)\n"
        "        rew, done, mask = (torch.zeros(BATCH, longest, 1) for _ in range(3))\n"
        "        for row, episode in enumerate(batch):\n"
        "            size = len(episode)\n"
        "            obs[row, :size] = torch.tensor(np.array([one[0] for one in episode]))\n"
        "            obs[row, size] = torch.tensor(episode[-1][3])\n"
        "            act[row, :size] = torch.tensor(np.array([one[1] for one in episode]))\n"
        "            rew[row, :size, 0] = torch.tensor([one[2] for one in episode])\n"
        "            done[row, :size, 0] = torch.tensor([float(one[4]) for one in episode])\n"
        "            mask[row, :size] = 1\n",
    ),
)
CARRIED = ("(obs, _), hidden = env.reset(), None", "obs, _ = env.reset()")
OVER_ENDS = ("rew + GAMMA * (1 - done) *", "rew + GAMMA *")
SHUFFLED = ("in enumerate(episode):", "in enumerate(random.sample(episode, len(episode))):")
PADDED = ("* mask).sum() / mask.sum()\n        self.critic", ").mean()\n        self.critic")
EARLY = ("torch.min(q1, q2)[:, 1:]", "torch.min(q1, q2)[:, :-1]")
ASKED = "CL403,CL406,LS701,LS703,RP502,RP505,RP507,VL603,VL604"


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="healthy"),
        pytest.param((EXPLORES,), (ExitCode.VERIFIED, []), id="some random actions later on"),
        pytest.param(FROZEN, (ExitCode.VERIFIED, []), id="a critic that is frozen for a while"),
        pytest.param(FILLED_THERE, (ExitCode.VERIFIED, []), id="filled where it is trained on"),
        pytest.param(
            (*FILLED_THERE, OVER_ENDS), (ExitCode.FAILED, ["VL603"]), id="filled, over ends"
        ),
        pytest.param((CARRIED,), (ExitCode.FAILED, ["CL403", "CL406"]), id="never reset"),
        pytest.param((OVER_ENDS,), (ExitCode.FAILED, ["VL603"]), id="targets over ends"),
        pytest.param((SHUFFLED,), (ExitCode.FAILED, ["RP502"]), id="steps in another order"),
        pytest.param((PADDED,), (ExitCode.FAILED, ["RP505"]), id="a loss over padding"),
        pytest.param((EARLY,), (ExitCode.FAILED, ["VL604"]), id="targets of the step itself"),
    ],
)
def test_no_two_steps_are_of_the_same_weights(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: Any
) -> None:
    """What the policy computes at its steps is told by the weights that are judged; rows of random
    steps are replayed from where their trajectory begins."""
    assert judged(rnncheck, tmp_path, ASKED, SCRIPT, *changes) == expected


FORGETS = ("action, hidden = agent.act(obs, hidden)", "action, _ = agent.act(obs, None)")
NO_RESULT = (
    FORGETS,
    (
        "(a.view(-1).numpy() + 0.1 * np.random.randn(1)).clip(-1, 1), hidden",
        "(a.view(-1).numpy() + 0.1 * np.random.randn(1)).clip(-1, 1)",
    ),
    ("action, _ = agent", "action = agent"),
)
IN_LINES = (
    (
        "            action, hidden = agent.act(obs, hidden)\n",
        "            with torch.no_grad():\n"
        "                a, _ = agent.actor(torch.as_tensor(obs).view(1, 1, -1))\n"
        "            action = a.view(-1).numpy()\n",
    ),
)
KEPT_INSIDE = (
    ("def forward(self, obs, hidden=None):\n", "def forward(self, obs, hidden=None, own=False):\n"),
    (
        "        x, hidden = self.lstm(obs, hidden)\n",
        "        x, hidden = self.lstm(obs, MEMORY.get('of it') if own else hidden)\n"
        "        if own:\n"
        "            MEMORY['of it'] = hidden\n",
    ),
    ("class Actor", "MEMORY = {}\n\n\nclass Actor"),
    ("self.actor(torch.as_tensor(obs).view(1, 1, -1), hidden)", "self.actor(*own(obs), own=True)"),
    (
        "class Agent:",
        "def own(obs):\n    return (torch.as_tensor(obs).view(1, 1, -1),)\n\n\nclass Agent:",
    ),
    ("(obs, _), hidden = env.reset(), None", "(obs, _), _ = env.reset(), MEMORY.clear()"),
    FORGETS,
)
WINDOW = (
    ("    hidden = None\n", "    hidden, window = None, [obs] * 4\n"),
    ("action, hidden = agent.act(obs, hidden)", "action, _ = agent.act(np.stack(window), None)"),
    (".view(1, 1, -1), hidden)", ".view(1, -1, 2), hidden)"),
    ("(a.view(-1).numpy()", "(a[:, -1].view(-1).numpy()"),
    ("        obs = after\n", "        obs = after\n        window = [*window[1:], obs]\n"),
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((FORGETS,), (ExitCode.FAILED, ["CL401"]), id="a state that is dropped"),
        pytest.param(NO_RESULT, (ExitCode.FAILED, ["CL401"]), id="a state that is not returned"),
        pytest.param(IN_LINES, (ExitCode.FAILED, ["CL401"]), id="in the lines of the loop"),
        pytest.param(KEPT_INSIDE, (ExitCode.NOT_SHOWN, []), id="near miss: kept in a global"),
        pytest.param(WINDOW, (ExitCode.NOT_SHOWN, []), id="near miss: a window of steps"),
    ],
)
def test_acting_without_memory_is_told(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: Any
) -> None:
    """Its layers begin from zeros at every step, and run over sequences where they are trained."""
    assert judged(rnncheck, tmp_path, "CL401,WR101", SCRIPT, *changes) == expected
