"""Scripts that step TorchRL's envs in a loop of their own and keep lists of tensors: with a plain
network, and with a module on tensordicts whose state the loop hands on under another name."""

_MARKET = """
import gymnasium as gym
import numpy as np
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.envs import GymWrapper, InitTracker, RewardSum, SerialEnv, TransformedEnv


class Market(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.drift = self.np_random.choice([-0.5, 0.5])
        self.gain, self.wealth, self.t = 0.0, 0.0, 0
        self.limit = int(self.np_random.integers(6, 12))
        return self.seen(), {}

    def seen(self):
        return np.array([self.gain, self.np_random.normal()], dtype=np.float32)

    def step(self, action):
        self.gain = float(0.3 * self.gain + self.drift + 0.3 * self.np_random.normal())
        reward = (0.0, 1.0, -1.0)[int(action)] * self.gain
        self.wealth += reward
        self.t += 1
        return self.seen(), reward, self.wealth < -2.0, self.t >= self.limit, {}


def make_env():
    return TransformedEnv(GymWrapper(Market(), categorical_action_encoding=True), RewardSum())


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.cell = nn.Linear(6, 12), nn.LSTMCell(12, 12)
        self.actor, self.critic = nn.Linear(12, 3), nn.Linear(12, 1)

    def step(self, seen, action, reward, start, state):
        keep = 1.0 - start.float().unsqueeze(-1)
        before = nn.functional.one_hot(action, 3).float() * keep
        x = torch.cat([seen, before, reward.unsqueeze(-1) * keep], -1)
        h, c = self.cell(torch.tanh(self.body(x)), (state[0] * keep, state[1] * keep))
        return self.actor(h), self.critic(h).squeeze(-1), (h, c)

    def unroll(self, seen, action, reward, start, state):
        logits, values = [], []
        for t in range(len(seen)):
            one, value, state = self.step(seen[t], action[t], reward[t], start[t], state)
            logits.append(one)
            values.append(value)
        return torch.stack(logits), torch.stack(values)


torch.manual_seed(0)
ENVS, STEPS = 4, 10
env = SerialEnv(ENVS, make_env)
env.set_seed(0)
agent = Agent()
optim = torch.optim.RMSprop(agent.parameters(), lr=1e-3)
"""
_TRAINS = """
    data = {name: torch.stack(one) for name, one in rollout.items()}
    after, returns = data["boot"][-1], []
    for t in reversed(range(STEPS)):
        after = torch.where(data["done"][t], data["boot"][t], after)
        after = data["reward"][t] + 0.95 * after * (~data["over"][t]).float()
        returns.insert(0, after)
    logits, values = agent.unroll(
        data["seen"], data["before"], data["paid"], data["start"], begun
    )
    dist = Categorical(logits=logits)
    gain = torch.stack(returns) - values
    loss = -(dist.log_prob(data["action"]) * gain.detach()).mean() + 0.5 * gain.pow(2).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
LISTS = (
    _MARKET
    + """
td = env.reset()
state = torch.zeros(ENVS, 12), torch.zeros(ENVS, 12)
before, paid = torch.zeros(ENVS, dtype=torch.long), torch.zeros(ENVS)
start = torch.ones(ENVS, dtype=torch.bool)
NAMES = ("seen", "before", "paid", "start", "action", "reward", "over", "done", "boot")
for update in range(8):
    rollout = {name: [] for name in NAMES}
    begun = state
    for t in range(STEPS):
        with torch.no_grad():
            old = state
            logits, _, state = agent.step(td["observation"], before, paid, start, state)
            action = Categorical(logits=logits).sample()
            td["action"] = action
            td, after = env.step_and_maybe_reset(td)
            reward = td["next", "reward"].squeeze(-1)
            done = td["next", "done"].squeeze(-1)
            goes_on = torch.zeros_like(start)
            _, boot, _ = agent.step(td["next", "observation"], action, reward, goes_on, state)
        over = td["next", "terminated"].squeeze(-1)
        held = (td["observation"], before, paid, start, action, reward, over, done, boot)
        for name, one in zip(NAMES, held):
            rollout[name].append(one.clone())
        before, paid, start, td = action, reward, done, after
"""
    + _TRAINS
)
HANDED = (
    _MARKET
    + """
class Acts(nn.Module):
    def __init__(self):
        super().__init__()
        self.agent = agent

    def forward(self, seen, before, paid, start, h, c):
        logits, value, (h, c) = self.agent.step(seen, before, paid, start, (h, c))
        return Categorical(logits=logits).sample(), value, h, c


policy = TensorDictModule(
    Acts(),
    ["observation", "before", "paid", "begins", "h", "c"],
    ["action", "value", "next_h", "next_c"],
)
td = env.reset()
state = torch.zeros(ENVS, 12), torch.zeros(ENVS, 12)
before, paid = torch.zeros(ENVS, dtype=torch.long), torch.zeros(ENVS)
start = torch.ones(ENVS, dtype=torch.bool)
NAMES = ("seen", "before", "paid", "start", "action", "reward", "over", "done", "boot")
for update in range(8):
    rollout = {name: [] for name in NAMES}
    begun = state
    for t in range(STEPS):
        with torch.no_grad():
            old = state
            td["before"], td["paid"], td["begins"] = before, paid, start
            td["h"], td["c"] = state
            td = policy(td)
            action, state = td["action"], (td["next_h"], td["next_c"])
            td, after = env.step_and_maybe_reset(td)
            reward = td["next", "reward"].squeeze(-1)
            done = td["next", "done"].squeeze(-1)
            goes_on = torch.zeros_like(start)
            _, boot, _ = agent.step(td["next", "observation"], action, reward, goes_on, state)
        over = td["next", "terminated"].squeeze(-1)
        held = (td["observation"], before, paid, start, action, reward, over, done, boot)
        for name, one in zip(NAMES, held):
            rollout[name].append(one.clone())
        before, paid, start, td = action, reward, done, after
"""
    + _TRAINS
)
GRAPHED = (
    _MARKET
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.cell = nn.Linear(2, 12), nn.GRUCell(12, 12)
        self.actor, self.critic = nn.Linear(12, 3), nn.Linear(12, 1)

    def forward(self, seen, h, begins):
        h = self.cell(torch.tanh(self.body(seen)), h * (~begins).float())
        return self.actor(h), self.critic(h), h


env = TransformedEnv(SerialEnv(ENVS, make_env), InitTracker())
env.set_seed(0)
net = Net()
optim = torch.optim.RMSprop(net.parameters(), lr=1e-3)
td, h = env.reset(), torch.zeros(ENVS, 12)
for update in range(8):
    h = h.detach()
    logps, values, rewards, overs, dones, nexts = [], [], [], [], [], []
    for t in range(STEPS):
        logits, value, h = net(td["observation"], h, td["is_init"])
        dist = Categorical(logits=logits)
        td["action"] = dist.sample()
        stepped, td = env.step_and_maybe_reset(td)
        after = stepped["next"]
        with torch.no_grad():
            goes_on = torch.zeros(ENVS, 1, dtype=torch.bool)
            nexts.append(net(after["observation"], h, goes_on)[1])
        logps.append(dist.log_prob(stepped["action"]).unsqueeze(-1))
        values.append(value)
        rewards.append(after["reward"])
        overs.append(after["terminated"].float())
        dones.append(after["done"].float())
    returns, total = [], nexts[-1]
    for t in reversed(range(STEPS)):
        total = torch.where(dones[t].bool(), nexts[t], total)
        total = rewards[t] + 0.95 * (1 - overs[t]) * total
        returns.insert(0, total)
    gain = torch.stack(returns, 1) - torch.stack(values, 1)
    loss = -(torch.stack(logps, 1) * gain.detach()).mean() + 0.5 * gain.pow(2).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
# Tensordicts of the steps, stacked; the loop draws the action and hands the state on.
STACKED = (
    _MARKET
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2, 12)
        self.actor, self.critic = nn.Linear(12, 3), nn.Linear(12, 1)

    def forward(self, seen, begins, h):
        h = self.cell(seen, h * (~begins).float())
        return self.actor(h), self.critic(h), h


env = TransformedEnv(SerialEnv(ENVS, make_env), InitTracker())
env.set_seed(0)
net = Net()
policy = TensorDictModule(net, ["observation", "is_init", "h"], ["logits", "value", ("next", "h")])
optim = torch.optim.RMSprop(net.parameters(), lr=1e-3)
td = env.reset()
td["h"] = torch.zeros(ENVS, 12)
for update in range(6):
    steps = []
    for t in range(STEPS):
        with torch.no_grad():
            ACT
            td["action"] = Categorical(logits=td["logits"]).sample()
            td["logp"] = Categorical(logits=td["logits"]).log_prob(td["action"]).unsqueeze(-1)
            step, td = env.step_and_maybe_reset(td)
            goes_on = torch.zeros(ENVS, 1, dtype=torch.bool)
            step["next", "value"] = net(step["next", "observation"], goes_on, left)[1]
        steps.append(step.clone())
        td["h"] = left
    data = torch.stack(steps, 1)
    after = data["next"]
    gain, found = torch.zeros(ENVS, 1), []
    for t in reversed(range(STEPS)):
        total = after["reward"][:, t] + 0.95 * after["value"][:, t] * ~after["terminated"][:, t]
        gain = total - data["value"][:, t] + 0.9 * gain * ~after["done"][:, t]
        found.insert(0, gain)
    gains = torch.stack(found, 1)
    h, logits, values = data["h"][:, 0], [], []
    for t in range(STEPS):
        one, value, h = net(data["observation"][:, t], data["is_init"][:, t], h)
        logits.append(one)
        values.append(value)
    logits, values = torch.stack(logits, 1), torch.stack(values, 1)
    logp = Categorical(logits=logits).log_prob(data["action"]).unsqueeze(-1)
    ratio = (logp - data["logp"]).exp()
    loss = -(ratio * gains).mean() + 0.5 * (values - gains - data["value"]).pow(2).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
BY_NETWORK = (
    "ACT",
    'td["logits"], td["value"], left = net(td["observation"], td["is_init"], td["h"])',
)
BY_MODULE = ("ACT", 'td = policy(td)\n            left = td["next", "h"]')
OLD_STATE = ("goes_on, left)[1]", 'goes_on, step["h"])[1]')
NO_STARTS = ('data["is_init"][:, t], h)', 'data["is_init"][:, t] & False, h)')
AT_THE_END = ('data["start"], begun', 'data["start"], state')
OWN_STEP = ('data["before"], data["paid"]', 'data["action"], data["reward"]')
FROM_BEFORE = ("reward, goes_on, state)", "reward, goes_on, old)")
CUT = ('["observation"], h, td', '["observation"], h.detach(), td')
NEVER_RESET = ("h * (~begins).float()", "h")
# Who acts is a function, and the env one of gymnasium's registry: all of it can be kept.
KEPT = """
import torch
from torch import nn
from torch.distributions import Categorical
from torchrl.envs import GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv

ENVS, STEPS = 4, 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.pi, self.v = nn.GRUCell(4, 12), nn.Linear(12, 2), nn.Linear(12, 1)

    def forward(self, seen, begins, h):
        h = self.cell(seen, h * (~begins).float())
        return self.pi(h), self.v(h).squeeze(-1), h

    @torch.no_grad()
    def act(self, seen, begins, h):
        logits, _, h = self(seen, begins, h)
        return Categorical(logits=logits).sample(), h

    def unroll(self, seen, begins, h):
        logits, values = [], []
        for x, begin in zip(seen, begins):
            one, value, h = self(x, begin, h)
            logits.append(one)
            values.append(value)
        return torch.stack(logits), torch.stack(values)


def make_env():
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    return TransformedEnv(env, StepCounter(max_steps=7))


def main():
    torch.manual_seed(0)
    env = TransformedEnv(SerialEnv(ENVS, make_env), InitTracker())
    env.set_seed(0)
    net = Net()
    optim = torch.optim.Adam(net.parameters(), lr=1e-3)
    td, h = env.reset(), torch.zeros(ENVS, 12)
    for update in range(6):
        begun = h
        seen, starts, actions, rewards, ends = [], [], [], [], []
        for t in range(STEPS):
            action, h = net.act(td["observation"], td["is_init"], h)
            td["action"] = action
            step, after = env.step_and_maybe_reset(td)
            seen.append(td["observation"])
            starts.append(td["is_init"])
            actions.append(action)
            rewards.append(step["next", "reward"].squeeze(-1))
            ends.append(step["next", "done"].squeeze(-1))
            td = after
        total, returns = torch.zeros(ENVS), []
        for reward, end in zip(reversed(rewards), reversed(ends)):
            total = reward + 0.95 * total * ~end
            returns.insert(0, total)
        logits, values = net.unroll(torch.stack(seen), torch.stack(starts), begun)
        gain = torch.stack(returns) - values
        logp = Categorical(logits=logits).log_prob(torch.stack(actions))
        loss = (gain.pow(2) - logp * gain.detach()).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()


if __name__ == "__main__":
    main()
"""
RUNS_ON = ("one, value, h = self(x, begin, h)", "one, value, h = self(x, begin & False, h)")
