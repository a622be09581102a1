"""Off-policy scripts whose critics are trained first, in lines that ran the policy before; and a
loop whose actor and critic have a memory of their own each."""

_ENV = """
import copy
import random

import gymnasium as gym
import numpy as np
import torch
from torch import nn

HIDDEN = 8


class Steered(gym.Env):
    observation_space = gym.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def seen(self):
        return np.array([self.at, self.goal if self.left > 7 else 0.0], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal = self.np_random.uniform(-1, 1, 2)
        self.left = 9
        return self.seen(), {}

    def step(self, action):
        self.at += 0.4 * float(np.clip(action[0], -1, 1))
        self.left -= 1
        far = abs(self.at - self.goal)
        return self.seen(), -far, bool(far < 0.1), self.left == 0, {}


class Net(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.rnn, self.out = nn.LSTM(inputs, HIDDEN, batch_first=True), nn.Linear(HIDDEN, outputs)

    def forward(self, x, last, state, action=None):
        given = [x, last] if action is None else [x, last, action]
        y, state = self.rnn(torch.cat(given, -1), state)
        return self.out(y), state


random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
"""
STATES_BESIDE = (
    _ENV
    + """
actor, critic = Net(3, 1), Net(4, 1)
target = copy.deepcopy(critic)
actor_optim = torch.optim.Adam(actor.parameters(), 1e-3)
critic_optim = torch.optim.Adam(critic.parameters(), 1e-3)
env, memory = Steered(), []


def act(shown, last, state):
    with torch.no_grad():
        mean, state = actor(torch.from_numpy(shown).view(1, 1, -1), last.view(1, 1, -1), state)
    return (torch.tanh(mean) + 0.1 * torch.randn(1, 1, 1)).clamp(-1, 1).flatten(), state


def update():
    x, last, action, reward, after, over, before, behind = draw()
    zeros = tuple(torch.zeros_like(one) for one in before)
    mean, _ = actor(x, last, before)
    with torch.no_grad():
        # the policy's state behind the first step, and the critic's
        follows, _ = actor(after, action, behind)
        _, left = target(x[:, :1], last[:, :1], zeros, action[:, :1])
        value, _ = target(after, action, left, torch.tanh(follows))
        wanted = reward + 0.95 * (1 - over) * value
    given, _ = critic(x, last, zeros, action)
    loss = (given - wanted).square().mean()
    critic_optim.zero_grad()
    loss.backward()
    critic_optim.step()
    gained, _ = critic(x, last, zeros, torch.tanh(mean))
    loss = -gained.mean()
    actor_optim.zero_grad()
    loss.backward()
    actor_optim.step()


def draw():
    drawn = random.sample(memory, 4)
    columns = [torch.from_numpy(np.stack([one[n] for one in drawn])) for n in range(6)]
    states = [tuple(torch.cat(pair, 1) for pair in zip(*(o[n] for o in drawn))) for n in (6, 7)]
    return *columns, *states


for number in range(30):
    shown, _ = env.reset(seed=number)
    last, state = torch.zeros(1), (torch.zeros(1, 1, HIDDEN), torch.zeros(1, 1, HIDDEN))
    steps, over = [], False
    while not over:
        before = state
        action, state = act(shown, last, state)
        after, reward, ended, cut, _ = env.step(action.numpy())
        if not steps:
            first = before, state
        steps.append((shown, last.numpy(), action.numpy(), [reward], after, [float(ended)]))
        shown, last, over = after, action, ended or cut
    if len(steps) == 9:
        memory.append((*(np.array(c, np.float32) for c in zip(*steps)), *first))
    if len(memory) > 5:
        update()
"""
)
STATES_OF_THE_NEXT = ("first = before, state", "first = state, state")

ONE_MORE = (
    _ENV
    + """
actor, critic = Net(3, 1), Net(4, 1)
actor_target, target = copy.deepcopy(actor), copy.deepcopy(critic)
actor_optim = torch.optim.Adam(actor.parameters(), 1e-3)
critic_optim = torch.optim.Adam(critic.parameters(), 1e-3)
env, memory = Steered(), []


def act(shown, last, state):
    with torch.no_grad():
        mean, state = actor(shown.unsqueeze(1), last.unsqueeze(1), state)
    return (torch.tanh(mean[:, 0]) + 0.1 * torch.randn(1, 1)).clamp(-1, 1), state


def update(x, action, reward, over, mask):
    count = mask.sum()
    with torch.no_grad():
        follows = torch.tanh(actor_target(x, action, None)[0])
        value, _ = target(x, action, None, follows)
        wanted = (reward + 0.95 * (1.0 - over) * value)[:, 1:]
    given, _ = critic(x[:, :-1], action[:, :-1], None, action[:, 1:])
    loss = ((given - wanted) * mask).square().sum() / count
    critic_optim.zero_grad()
    loss.backward()
    critic_optim.step()
    mean, _ = actor(x, action, None)
    gained, _ = critic(x, action, None, torch.tanh(mean))
    loss = -(gained[:, :-1] * mask).sum() / count
    actor_optim.zero_grad()
    loss.backward()
    actor_optim.step()


def drawn():
    some = random.sample(memory, 6)
    longest = max(len(one[1]) for one in some)
    shapes = [(6, longest + 1, 2), *[(6, longest + 1, 1)] * 3, (6, longest, 1)]
    x, action, reward, over, mask = (torch.zeros(shape) for shape in shapes)
    for row, (shown, actions, rewards, ends) in enumerate(some):
        count = len(actions)
        x[row, : count + 1] = shown
        for into, of in ((action, actions), (reward, rewards), (over, ends)):
            into[row, 1 : count + 1] = of
        mask[row, :count] = 1
    return x, action, reward, over, mask


for number in range(30):
    shown, _ = env.reset(seed=number)
    shown, last, state = torch.from_numpy(shown).view(1, -1), torch.zeros(1, 1), None
    seen, actions, rewards, ends, over = [shown], [], [], [], False
    while not over:
        last, state = act(shown, last, state)
        shown, reward, ended, cut, _ = env.step(last[0].numpy())
        shown, over = torch.from_numpy(shown).view(1, -1), ended or cut
        for into, of in ((seen, shown), (actions, last)):
            into.append(of)
        rewards.append(torch.tensor([[reward]], dtype=torch.float32))
        ends.append(torch.tensor([[float(ended)]]))
    memory.append(tuple(torch.cat(one) for one in (seen, actions, rewards, ends)))
    if len(memory) > 5:
        update(*drawn())
"""
)
OVER_ENDS = ("0.95 * (1.0 - over) * value", "0.95 * value")
# The actor is trained at every second update, which an object counts.
_COUNTS = """class Counts:
    def __init__(self):
        self.updates = 0


counts = Counts()


def update("""
EVERY_SECOND = (
    ("        update(*drawn())", "        for _ in range(2):\n            update(*drawn())"),
    ("def update(", _COUNTS),
    (
        "    mean, _ = actor(x, action, None)\n",
        """    counts.updates += 1
    if counts.updates % 2:
        return
    mean, _ = actor(x, action, None)
""",
    ),
)

TWO_MEMORIES = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

N, T, HIDDEN = 4, 16, 8


class Position(gym.ObservationWrapper):
    observation_space = gym.spaces.Box(-9, 9, (2,), np.float32)

    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))

    def observation(self, seen):
        return seen[[0, 2]].astype(np.float32)


class Net(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.rnn, self.out = nn.LSTM(2, HIDDEN), nn.Linear(HIDDEN, outputs)

    def forward(self, x, state, over):
        rows, found = state[0].shape[1], []
        for one, ended in zip(x.reshape(-1, rows, 2), over.reshape(-1, rows)):
            keep = (1.0 - ended).view(1, -1, 1)
            y, state = self.rnn(one.unsqueeze(0), (keep * state[0], keep * state[1]))
            found.append(y)
        return self.out(torch.cat(found).flatten(0, 1)), state


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.critic = Net(2), Net(1)

    def act(self, x, state, over):
        logits, actors = self.actor(x, state[0], over)
        value, critics = self.critic(x, state[1], over)
        dist = Categorical(logits=logits)
        action = dist.sample()
        return action, dist.log_prob(action), value.flatten(), (actors, critics)

    def value(self, x, state, over):
        return self.critic(x, state, over)[0].flatten()

    def log_prob(self, x, state, over, action):
        return Categorical(logits=self.actor(x, state, over)[0]).log_prob(action)


torch.manual_seed(0)
envs = gym.vector.SyncVectorEnv(
    [Position for _ in range(N)], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
)
agent = Agent()
optims = [torch.optim.Adam(one.parameters(), 1e-3) for one in (agent.critic, agent.actor)]
obs, actions = torch.zeros(T, N, 2), torch.zeros(T, N, dtype=torch.long)
logps, rewards, overs, values = (torch.zeros(T, N) for _ in range(4))
x, over = torch.tensor(envs.reset(seed=1)[0]), torch.ones(N)
state = tuple(tuple(torch.zeros(1, N, HIDDEN) for _ in "hc") for _ in range(2))
for update in range(8):
    first = state
    for t in range(T):
        obs[t], overs[t] = x, over
        with torch.no_grad():
            actions[t], logps[t], values[t], state = agent.act(x, state, over)
        seen, reward, ended, cut, _ = envs.step(actions[t].numpy())
        rewards[t] = torch.tensor(reward)
        x, over = torch.tensor(seen), torch.tensor(ended | cut).float()
    with torch.no_grad():
        after = agent.value(x, state[1], over)
    gains, last, goes_on = torch.zeros(T, N), 0, 1 - over
    for t in reversed(range(T)):
        last = rewards[t] + 0.97 * after * goes_on - values[t] + 0.9 * goes_on * last
        gains[t], after, goes_on = last, values[t], 1 - overs[t]
    returns = gains + values
    for rows in torch.randperm(N).chunk(2):
        of = obs[:, rows].flatten(0, 1), overs[:, rows].flatten()
        actors, critics = (tuple(one[:, rows] for one in pair) for pair in first)
        loss = (agent.value(of[0], critics, of[1]) - returns[:, rows].flatten()).square().mean()
        optims[0].zero_grad()
        loss.backward()
        optims[0].step()
        logp = agent.log_prob(of[0], actors, of[1], actions[:, rows].flatten())
        ratio = (logp - logps[:, rows].flatten()).exp()
        loss = -(ratio * gains[:, rows].flatten()).mean()
        optims[1].zero_grad()
        loss.backward()
        optims[1].step()
"""
CRITIC_FROM_ZEROS = (
    "agent.value(of[0], critics, of[1])",
    "agent.value(of[0], tuple(map(torch.zeros_like, critics)), of[1])",
)
ACTORS_STATE = ("agent.value(of[0], critics, of[1])", "agent.value(of[0], actors, of[1])")
