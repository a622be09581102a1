"""A memory that runs over steps, or over sequences, as a switch of the script's own says: neither
TorchRL's mode nor an attribute of the policy. It is set around the update."""

from __future__ import annotations

SCRIPT = """
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, StepCounter, TensorDictPrimer
from torchrl.envs import TransformedEnv
from torchrl.modules import ProbabilisticActor

HIDDEN = 16
OVER_SEQUENCES = False
torch.manual_seed(0)


def over_sequences():
    return OVER_SEQUENCES


@contextmanager
def sequences(mode):
    global OVER_SEQUENCES
    before, OVER_SEQUENCES = OVER_SEQUENCES, mode
    try:
        yield
    finally:
        OVER_SEQUENCES = before


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, HIDDEN)

    def forward(self, x, start, h):
        if not over_sequences():
            h = self.cell(x, h * ~start)
            return h, h
        states, h = [], h[:, 0]
        for x_t, start_t in zip(x.unbind(1), start.unbind(1)):
            h = self.cell(x_t, h * ~start_t)
            states.append(h)
        found = torch.stack(states, 1)
        return found, found


class Agent:
    def __init__(self):
        read = ["observation", "is_init", "h"]
        self.memory = TensorDictModule(Memory(), read, ["x", ("next", "h")])
        self.actor = ProbabilisticActor(
            TensorDictModule(nn.Linear(HIDDEN, 2), ["x"], ["logits"]),
            in_keys=["logits"],
            out_keys=["action"],
            distribution_class=torch.distributions.Categorical,
            return_log_prob=True,
        )
        self.policy = TensorDictSequential(self.memory, self.actor)
        self.optim = torch.optim.Adam(self.policy.parameters(), 1e-3)

    def train(self, data):
        with sequences(True):
            for rows in data.split(2):
                self.update(rows)

    def update(self, rows):
        self.memory(rows)
        chance = self.actor.get_dist(rows).log_prob(rows["action"])
        ratio = (chance - rows["action_log_prob"]).exp()
        loss = -(ratio * rows["gain"]).mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()


def gains(data):
    found, behind = [], 0
    for reward, done in zip(*(data["next", key].flip(1).unbind(1) for key in ("reward", "done"))):
        behind = reward[:, 0] + 0.9 * behind * ~done[:, 0]
        found.append(behind)
    return torch.stack(found[::-1], 1)


def collect(env, td):
    steps = []
    with torch.no_grad():
        for _ in range(12):
            td = agent.policy(td)
            step, td = env.step_and_maybe_reset(td)
            steps.append(step)
    return torch.stack(steps, 1).contiguous(), td


def one():
    return GymEnv("CartPole-v1", categorical_action_encoding=True)


from torchrl.envs import SerialEnv

primer = TensorDictPrimer(h=Unbounded(shape=(4, HIDDEN)), expand_specs=False)
env = TransformedEnv(SerialEnv(4, one), Compose(InitTracker(), StepCounter(7), primer))
env.set_seed(0)
agent = Agent()
td = env.reset()
for _ in range(3):
    data, td = collect(env, td)
    data["gain"] = gains(data)
    agent.train(data)
"""

# The same with the switch kept elsewhere.
VARIABLE = (
    (
        "OVER_SEQUENCES = False\n",
        'OVER_SEQUENCES = ContextVar("over_sequences", default=False)\n',
    ),
    ("    return OVER_SEQUENCES\n", "    return OVER_SEQUENCES.get()\n"),
    (
        "    global OVER_SEQUENCES\n    before, OVER_SEQUENCES = OVER_SEQUENCES, mode\n",
        "    before = OVER_SEQUENCES.set(mode)\n",
    ),
    ("        OVER_SEQUENCES = before\n", "        OVER_SEQUENCES.reset(before)\n"),
)
OBJECT = (
    ("OVER_SEQUENCES = False\n", "class Switch:\n    on = False\n\n\nOVER = Switch()\n"),
    ("    return OVER_SEQUENCES\n", "    return OVER.on\n"),
    (
        "    global OVER_SEQUENCES\n    before, OVER_SEQUENCES = OVER_SEQUENCES, mode\n",
        "    before, OVER.on = OVER.on, mode\n",
    ),
    ("        OVER_SEQUENCES = before\n", "        OVER.on = before\n"),
)
# Set inside of the function that is the loss.
INSIDE = (
    (
        "        with sequences(True):\n            for rows",
        "        if True:\n            for rows",
    ),
    (
        "        self.memory(rows)\n",
        "        with sequences(True):\n            self.memory(rows)\n",
    ),
)
# Left on behind the last update.
LEFT_ON = (
    (
        "        with sequences(True):\n            for rows",
        "        global OVER_SEQUENCES\n        OVER_SEQUENCES = True\n        if True:\n"
        "            for rows",
    ),
    ("    steps = []\n", "    global OVER_SEQUENCES\n    OVER_SEQUENCES = False\n    steps = []\n"),
)

NO_STARTS = (
    "            h = self.cell(x_t, h * ~start_t)\n",
    "            h = self.cell(x_t, h)\n",
)
FROM_ZEROS = ("        states, h = [], h[:, 0]\n", "        states, h = [], h[:, 0] * 0\n")
