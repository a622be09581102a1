"""Whole episodes in rows of their own, padded with zeros, and a loss that runs over their T+1
observations without start flags: its memory begins with each row."""

from __future__ import annotations

SCRIPT = """
import copy

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer, Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, StepCounter, TensorDictPrimer
from torchrl.envs import TransformedEnv

LONGEST, HIDDEN = 14, 16
torch.manual_seed(0)


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.gru = nn.Linear(4, HIDDEN), nn.GRU(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x, h=None):
        return self.gru(self.embed(x).tanh(), h)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory, self.head = Memory(), nn.Linear(HIDDEN, 2)

    def forward(self, x, h, start):
        h = (h * (~start)).reshape(1, -1, HIDDEN).contiguous()
        y, h = self.memory(x.reshape(-1, 1, 4), h)
        action = torch.distributions.Categorical(logits=self.head(y[:, 0])).sample()
        return action.reshape(x.shape[:-1]), h.reshape(*x.shape[:-1], HIDDEN)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory, self.head = Memory(), nn.Linear(HIDDEN + 2, 1)

    def forward(self, x, taken):
        y, _ = self.memory(x)
        return self.head(torch.cat([y, taken], -1))


actor, critic = Actor(), Critic()
target = copy.deepcopy(critic)
policy = TensorDictModule(actor, ["observation", "h", "is_init"], ["action", ("next", "h")])
parameters = [*actor.parameters(), *critic.parameters()]
optim = torch.optim.Adam(parameters, 1e-3)
primer = TensorDictPrimer(h=Unbounded(shape=(HIDDEN,)))
env = TransformedEnv(
    GymEnv("CartPole-v1", categorical_action_encoding=True),
    Compose(InitTracker(), StepCounter(LONGEST), primer),
)
env.set_seed(0)


def update(rows):
    x = torch.cat([rows["observation"][:, :1], rows["next", "observation"]], 1)
    taken = nn.functional.one_hot(rows["action"], 2).float()
    mask, over = rows["mask"].float(), rows["next", "terminated"].float()
    chances = actor.head(actor.memory(x)[0]).softmax(-1)
    with torch.no_grad():
        behind = target(x, chances)[:, 1:]
        wanted = rows["next", "reward"] + 0.95 * (1 - over) * behind
    error = ((critic(x[:, :-1], taken) - wanted).square() * mask).sum() / mask.sum()
    gain = (critic(x[:, :-1], chances[:, :-1]) * mask).sum() / mask.sum()
    loss = error - gain
    optim.zero_grad()
    loss.backward()
    optim.step()


def episode():
    td, steps = env.reset(), []
    for _ in range(LONGEST):
        with torch.no_grad():
            td = env.step(policy(td))
        steps.append(td.select("observation", "action", "h", "is_init", "next"))
        if td["next", "done"]:
            break
        td = td["next"].exclude("reward").clone()
    rows = torch.stack(steps)
    padded = rows.new_zeros(LONGEST)
    padded[: len(rows)] = rows
    padded["mask"] = (torch.arange(LONGEST) < len(rows)).unsqueeze(-1)
    return padded


memory = TensorDictReplayBuffer(storage=LazyTensorStorage(64), batch_size=6)
for number in range(14):
    memory.add(episode())
    if number > 6:
        update(memory.sample())
"""
SHIFTED = ('one_hot(rows["action"], 2)', 'one_hot(rows["action"].roll(1, 1), 2)')
OWN_VALUES = ("chances)[:, 1:]", "chances)[:, :-1]")

# Rows without the flags and states that acting had.
NO_FLAGS = (
    'select("observation", "action", "h", "is_init", "next")',
    'select("observation", "action", "next")',
)
# Networks that are shown the action and the reward of the step before, by the loop.
PREVIOUS = (
    NO_FLAGS,
    ("nn.Linear(4, HIDDEN), nn.GRU", "nn.Linear(6, HIDDEN), nn.GRU"),
    (
        "    def forward(self, x, h, start):\n",
        "    def forward(self, x, h, start, last, got):\n"
        "        x = torch.cat([x, last, got], -1)\n",
    ),
    ("x.reshape(-1, 1, 4)", "x.reshape(-1, 1, 6)"),
    ('["observation", "h", "is_init"]', '["observation", "h", "is_init", "last", "got"]'),
    (
        "    taken = nn",
        """    shown = torch.cat([rows["action"].unsqueeze(-1).float(), rows["next", "reward"]], -1)
    shown = torch.cat([torch.zeros_like(shown[:, :1]), shown], 1)
    x = torch.cat([x, shown], -1)
    taken = nn""",
    ),
    (
        "    td, steps = env.reset(), []\n",
        "    td, steps, last, got = env.reset(), [], torch.zeros(1), torch.zeros(1)\n",
    ),
    (
        "        with torch.no_grad():\n            td = env.step(policy(td))\n",
        """        td["last"], td["got"] = last, got
        with torch.no_grad():
            td = env.step(policy(td))
        last, got = td["action"].reshape(1).float(), td["next", "reward"]
""",
    ),
)
OF_NOW = (
    "    shown = torch.cat([torch.zeros_like(shown[:, :1]), shown], 1)\n",
    "    shown = torch.cat([shown, torch.zeros_like(shown[:, :1])], 1)\n",
)
