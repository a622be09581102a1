"""A plain actor-critic loop, written out in many ways of holding a state and a rollout."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import random
from collections import deque, namedtuple
from dataclasses import dataclass

import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical

STEPS, HIDDEN, GAMMA = 48, 16, 0.98
Step = namedtuple("Step", "x start action reward done")


@dataclass
class Chosen:
    action: torch.Tensor
    h: torch.Tensor


class Net(nn.Module):
    h = None

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, HIDDEN)
        self.policy, self.value = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def forward(self, x, h):
        h = self.cell(x, h)
        return self.policy(h), self.value(h).squeeze(-1), h
{act}
    def replay(self, xs, h, starts):
        logits, values = [], []
        for x, start in zip(xs, starts):
            {reset}
            out, value, h = self(x, h)
            logits.append(out)
            values.append(value)
        return torch.stack(logits), torch.stack(values)


class Buffer:
    def __init__(self):
        self.clear()

    def clear(self):
        self.x, self.start, self.action, self.reward, self.done = [], [], [], [], []

    def add(self, x, start, action, reward, done):
        self.x.append(x)
        self.start.append(start)
        self.action.append(action)
        self.reward.append(reward)
        self.done.append(done)

    def all(self):
        return self.x, self.start, self.action, self.reward, self.done


class Agent:
    def __init__(self, net, optim):
        self.net, self.optim, self.kept = net, optim, []

    def learn(self, first):
        loss = loss_of(*zip(*self.kept), first, self.net)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        self.kept.clear()


def loss_of(xs, starts, actions, rewards, dones, first, net):
    logits, values = net.replay(torch.stack(tuple(xs)), first, torch.tensor(starts))
    after, found = torch.zeros(1), []
    for reward, done in zip(reversed(rewards), reversed(dones)):
        after = reward + GAMMA * after * {mask}
        found.append(after)
    advantage = torch.stack(found[::-1]) - values
    chosen = Categorical(logits=logits).log_prob(torch.stack(tuple(actions)))
    return 0.1 * advantage.square().mean() - (chosen * advantage.detach()).mean()


torch.manual_seed(2)
random.seed(2)
env, net, memory = gym.make("CartPole-v1"), Net(), []
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
agent = Agent(net, optim)


def learn(first):
    return loss_of(*zip(*memory), first, net)


x = torch.as_tensor(env.reset(seed=2)[0]).unsqueeze(0)
h, start, count, kept = torch.zeros(1, HIDDEN), True, 0, []
for update in range(5):
    first = {first}
    {clear}
    for _ in range(STEPS):
        count += 1
        {chosen}
        seen, reward, terminated, truncated, _ = env.step(action.item())
        over = terminated or truncated
        {add}
        if over:
            seen, _ = env.reset()
            {again}
        x, start = torch.as_tensor(seen).unsqueeze(0), over
    {loss}
"""
TRAIN = """
    optim.zero_grad()
    loss.backward()
    optim.step()
"""


@dataclass(frozen=True)
class Held:
    """How a rollout is held: what begins it, what adds a step, and what is trained on."""

    clear: str
    add: str
    loss: str


@dataclass(frozen=True)
class Acts:
    """How the state is: the method that acts, its call, and what is done at an end."""

    method: str
    call: str
    again: str
    first: str = "h"


STEP = "x, start, action, reward, over"
ROLLOUTS = {
    "tuples": Held(
        "kept = []", f"kept.append(({STEP}))", "loss = loss_of(*zip(*kept), first, net)"
    ),
    "records": Held(
        "kept = []",
        f"kept.append(Step({STEP}))",
        "loss = loss_of([s.x for s in kept], [s.start for s in kept], [s.action for s in kept],"
        " [s.reward for s in kept], [s.done for s in kept], first, net)",
    ),
    "dict of lists": Held(
        "kept = {name: [] for name in Step._fields}",
        f"[kept[name].append(one) for name, one in zip(kept, ({STEP}))]",
        "loss = loss_of(*kept.values(), first, net)",
    ),
    "buffer": Held(
        "kept = Buffer()", f"kept.add({STEP})", "loss = loss_of(*kept.all(), first, net)"
    ),
    "deque": Held(
        "kept = deque(maxlen=STEPS)",
        f"kept.append(({STEP}))",
        "loss = loss_of(*zip(*kept), first, net)",
    ),
    "agent": Held("pass", f"agent.kept.append(({STEP}))", "agent.learn(first)"),
    "global": Held("memory.clear()", f"memory.append(({STEP}))", "loss = learn(first)"),
    "scaled": Held(
        "kept = []",
        "kept.append((x, start, action, 0.1 * reward, over))",
        "loss = loss_of(*zip(*kept), first, net)",
    ),
}
NO_GRAD = "\n    @torch.no_grad()"
STATES = {
    "handed on": Acts(
        NO_GRAD
        + """
    def act(self, x, h):
        logits, _, h = self(x, h)
        return Categorical(logits=logits).sample(), h
""",
        "action, h = net.act(x, h)",
        "h = torch.zeros_like(h)",
    ),
    "plain flag": Acts(
        NO_GRAD
        + """
    def act(self, x, h, start):
        {flagged}
        logits, _, h = self(x, h)
        return Categorical(logits=logits).sample(), h
""",
        "action, h = net.act(x, h, start)",
        "pass",
    ),
    "None at first": Acts(
        NO_GRAD
        + """
    def act(self, x):
        if self.h is None:
            self.h = torch.zeros(1, HIDDEN)
        logits, _, self.h = self(x, self.h)
        return Categorical(logits=logits).sample()
""",
        "action = net.act(x)",
        "net.h = None",
        first="torch.zeros(1, HIDDEN) if net.h is None else net.h",
    ),
    "a dataclass": Acts(
        NO_GRAD
        + """
    def act(self, x, h):
        logits, _, h = self(x, h)
        return Chosen(Categorical(logits=logits).sample(), h)
""",
        "chosen = net.act(x, h); action, h = chosen.action, chosen.h",
        "h = torch.zeros_like(h)",
    ),
    "explored": Acts(
        NO_GRAD
        + """
    def act(self, x, h, count):
        logits, _, h = self(x, h)
        if random.random() < 1 / count:
            return torch.randint(2, (1,)), h
        return logits.argmax(-1), h
""",
        "action, h = net.act(x, h, count)",
        "h = torch.zeros_like(h)",
    ),
}
KEPT, RETURNS, STARTS, ZEROS = "state kept", "returns run on", "starts ignored", "from zeros"


def script(rollout: str = "tuples", state: str = "handed on", fault: str = "") -> str:
    """The text of the script, with a fault of recurrence if one is named."""
    held, acts = ROLLOUTS[rollout], STATES[state]
    flagged = "pass" if fault == KEPT else "h = torch.zeros_like(h) if start else h"
    return HEAD.format(
        act=acts.method.replace("{flagged}", flagged),
        reset="pass" if fault == STARTS else "h = h * (1 - start.float())",
        mask="1.0" if fault == RETURNS else "(1.0 - float(done))",
        first="torch.zeros(1, HIDDEN)" if fault == ZEROS else acts.first,
        clear=held.clear,
        chosen=acts.call,
        add=held.add,
        again="pass" if fault == KEPT else acts.again,
        loss=held.loss + ("" if rollout == "agent" else TRAIN),
    )
