"""Scripts in the forms of public code, and faults in them that were once verified."""

from __future__ import annotations

import re

from tests.watching.estimates_script import GAE_OF_ONES_OWN
from tests.watching.scripts import SCRIPTS

# Q-learning on whole rows, with λ-returns and an error that is far from its target.
LAMBDA = """
import copy
import random
from collections import deque

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import EGreedyModule, LSTMModule, QValueModule, set_recurrent_mode

random.seed(0)
torch.manual_seed(0)
lstm = LSTMModule(input_size=4, hidden_size=16, in_key="observation", out_key="emb")
env = TransformedEnv(
    SerialEnv(3, lambda: GymEnv("CartPole-v1")),
    Compose(StepCounter(14), InitTracker(), lstm.make_tensordict_primer()),
)
head = TensorDictModule(nn.Linear(16, 2), ["emb"], ["action_value"])
q = TensorDictSequential(lstm, head)
greedy = QValueModule(action_space="one-hot", spec=env.action_spec_unbatched)
explore = EGreedyModule(spec=env.action_spec_unbatched, annealing_num_steps=1000)
q_target = copy.deepcopy(q).requires_grad_(False)
optim = torch.optim.Adam(q.parameters(), 1e-3)
memory = deque(maxlen=30)
KEYS = ["observation", "recurrent_state_h", "recurrent_state_c", "is_init"]


def lambda_targets(batch, gamma=0.97, lam=0.8):
    with torch.no_grad():
        best = q_target(batch["next"].select(*KEYS).clone())["action_value"].max(-1).values
    r = batch["next", "reward"].squeeze(-1)
    nonterm = (~batch["next", "terminated"].squeeze(-1)).float()
    done = batch["next", "done"].squeeze(-1)
    out, nxt = torch.zeros_like(r), best[:, -1]
    for t in reversed(range(r.shape[1])):
        mixed = (1 - lam) * best[:, t] + lam * nxt
        mix = torch.where(done[:, t], best[:, t], mixed)
        nxt = r[:, t] + gamma * nonterm[:, t] * mix
        out[:, t] = nxt
    return out


policy = TensorDictSequential(q, greedy, explore)
for data in Collector(env, policy, frames_per_batch=75, total_frames=450):
    explore.step(data.numel())
    memory.extend(data.unbind(0))
    for _ in range(2):
        batch = torch.stack(random.sample(list(memory), 3), 0)
        y = lambda_targets(batch)
        with set_recurrent_mode(True):
            qs = q(batch.select(*KEYS).clone())["action_value"]
        chosen = (qs * batch["action"]).sum(-1)
        loss = nn.functional.smooth_l1_loss(chosen, y)
        optim.zero_grad()
        loss.backward()
        optim.step()
"""

# An agent that holds its state, and is trained on one whole episode at a time.
EPISODES = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(1)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.rnn = nn.Linear(4, 16), nn.GRU(16, 16)
        self.pi, self.v, self.h = nn.Linear(16, 2), nn.Linear(16, 1), None

    def reset(self):
        self.h = torch.zeros(1, 1, 16)

    def act(self, obs):
        with torch.no_grad():
            x = torch.tanh(self.enc(torch.as_tensor(obs).view(1, 1, -1)))
            x, self.h = self.rnn(x, self.h)
            return Categorical(logits=self.pi(x)).sample().item()

    def evaluate(self, obs):
        x, _ = self.rnn(torch.tanh(self.enc(obs.unsqueeze(1))), torch.zeros(1, 1, 16))
        return self.pi(x).squeeze(1), self.v(x).view(-1)


def loss_of(agent, obs, acts, rews, gamma=0.98):
    obs, acts, togo, after = torch.tensor(np.array(obs)), torch.tensor(acts), [], 0.0
    for r in reversed(rews):
        after = r + gamma * after
        togo.insert(0, after)
    togo = torch.tensor(togo)
    logits, v = agent.evaluate(obs)
    told = Categorical(logits=logits).log_prob(acts)
    return -(told * (togo - v.detach())).mean() + 0.5 * (v - togo).pow(2).mean()


env, agent = gym.make("CartPole-v1", max_episode_steps=40), Agent()
opt = torch.optim.Adam(agent.parameters(), 2e-3)
for episode in range(8):
    o, _ = env.reset(seed=episode)
    agent.reset()
    obs, acts, rews, done = [], [], [], False
    while not done:
        a = agent.act(o)
        obs.append(o)
        acts.append(a)
        o, r, terminated, truncated, _ = env.step(a)
        done = terminated or truncated
        rews.append(float(r))
    loss = loss_of(agent, obs, acts, rews)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

# Exploration is drawn now and then beside the greedy action, which alone is given.
SELDOM_RANDOM = """
import random

import gymnasium as gym
import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.lstm = nn.Linear(4, 32), nn.LSTM(32, 32, batch_first=True)
        self.fc2 = nn.Linear(32, 2)

    def forward(self, x, h, c):
        x, (h, c) = self.lstm(torch.relu(self.fc1(x)), (h, c))
        return self.fc2(x), h, c

    def sample_action(self, obs, h, c, epsilon):
        q, h, c = self.forward(obs, h, c)
        if random.random() < epsilon:
            return random.randint(0, 1), h, c
        return q.argmax().item(), h, c


env, net, memory = gym.make("CartPole-v1"), QNet(), []
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
for episode in range(20):
    obs, _ = env.reset(seed=episode)
    steps, done = [], False
    h, c = torch.zeros(1, 1, 32), torch.zeros(1, 1, 32)
    while not done:
        a, h, c = net.sample_action(torch.from_numpy(obs).view(1, 1, 4), h, c, 0.1)
        seen, r, terminated, truncated, _ = env.step(a)
        done = terminated or truncated
        steps.append((obs, a, r / 100.0))
        obs = seen
    memory.append(steps)
    if len(memory) >= 6:
        steps = random.choice(memory)
        x = torch.stack([torch.from_numpy(one[0]) for one in steps]).unsqueeze(0)
        q, _, _ = net(x, torch.zeros(1, 1, 32), torch.zeros(1, 1, 32))
        chosen = q[0].gather(1, torch.tensor([[one[1]] for one in steps]))
        loss = (chosen.squeeze(1) - torch.tensor([one[2] for one in steps])).square().mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
"""

_VECTOR = (SCRIPTS / "plain_vector.py").read_text()
_NORMAL = "gain = (b_advantages[rows] - b_advantages[rows].mean()) / b_advantages[rows].std()"
NORMALISED = _VECTOR.replace("gain = b_advantages[rows]", _NORMAL)
A_STEP_EARLY = ("1.0 - dones[t + 1], values[t + 1]", "1.0 - dones[t], values[t + 1]")

# The recurrent module gets what a layer made of the observation.
ENCODED = re.sub(
    r'gru = GRUModule\(4, 24, in_key="observation", out_key="feat"\)',
    'core = GRUModule(8, 24, in_key="enc", out_key="feat")\n'
    'enc = TensorDictModule(nn.Linear(4, 8), ["observation"], ["enc"])\n'
    "gru = TensorDictSequential(enc, core)",
    GAE_OF_ONES_OWN,
).replace("gru.make_tensordict_primer()", "core.make_tensordict_primer()")

_ALONE = """        with set_recurrent_mode(True):
            value = critic(gru(td.select(*KEPT).clone()))["state_value"]
"""
_BEHIND = (
    _ALONE
    + """        nx = td["next"].select("observation", "recurrent_state").clone()
        nx["is_init"] = torch.zeros_like(td["is_init"])
        behind = critic(gru(nx))["state_value"]
"""
)
EVERY_NEXT = ENCODED.replace(_ALONE, _BEHIND).replace(
    "following = value[:, t + 1] if t + 1 < reward.shape[1] else last_value",
    "following = behind[:, t]",
)
FROM_ZERO = (
    'select("observation", "recurrent_state").clone()',
    'select("observation").clone()',
)
