"""A script whose env shows the same at most of its steps, and one whose env shows several things
at once, gets several choices for an action, and is cut by a time limit."""

CORRIDOR = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

N, T, HIDDEN, GAMMA = 4, 20, 8, 0.97


class Corridor(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def seen(self):
        at = self.cue if self.x == 0 else 3 if self.x == 3 else 2
        return np.eye(4, dtype=np.float32)[at]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.cue, self.left = 0, int(self.np_random.integers(2)), 9
        return self.seen(), {}

    def step(self, action):
        self.left -= 1
        if action == 0 and self.x < 3:
            self.x += 1
        elif self.x == 3 and action:
            return self.seen(), 1.0 if action - 1 == self.cue else -0.5, True, False, {}
        return self.seen(), -0.1, self.left == 0, False, {}


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.gru = nn.Linear(4, HIDDEN), nn.GRU(HIDDEN, HIDDEN)
        self.actor, self.critic = nn.Linear(HIDDEN, 3), nn.Linear(HIDDEN, 1)

    def states(self, x, h, done):
        rows = h.shape[1]
        shown, out = torch.tanh(self.enter(x)).reshape(-1, rows, HIDDEN), []
        for one, over in zip(shown, done.reshape(-1, rows)):
            y, h = self.gru(one.unsqueeze(0), (1.0 - over).view(1, -1, 1) * h)
            out.append(y)
        return torch.cat(out).flatten(0, 1), h

    def act(self, x, h, done, action=None):
        y, h = self.states(x, h, done)
        dist = Categorical(logits=self.actor(y))
        action = dist.sample() if action is None else action
        return action, dist.log_prob(action), self.critic(y).flatten(), h


torch.manual_seed(0)
envs = gym.vector.SyncVectorEnv(
    [Corridor for _ in range(N)], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
)
agent = Agent()
optim = torch.optim.Adam(agent.parameters(), 1e-3)
obs, actions = torch.zeros(T, N, 4), torch.zeros(T, N, dtype=torch.long)
logps, rewards, dones, values = (torch.zeros(T, N) for _ in range(4))
shown, over = torch.tensor(envs.reset(seed=1)[0]), torch.ones(N)
h = torch.zeros(1, N, HIDDEN)
for update in range(8):
    first = h.clone()
    for t in range(T):
        obs[t], dones[t] = shown, over
        with torch.no_grad():
            actions[t], logps[t], values[t], h = agent.act(shown, h, over)
        seen, reward, terminated, truncated, _ = envs.step(actions[t].numpy())
        rewards[t] = torch.tensor(reward)
        shown, over = torch.tensor(seen), torch.tensor(terminated | truncated).float()
    with torch.no_grad():
        after = agent.critic(agent.states(shown, h, over)[0]).flatten()
    gains, last, goes_on = torch.zeros(T, N), 0, 1 - over
    for t in reversed(range(T)):
        last = rewards[t] + GAMMA * after * goes_on - values[t] + GAMMA * 0.9 * goes_on * last
        gains[t], after, goes_on = last, values[t], 1 - dones[t]
    returns, numbers = gains + values, torch.arange(T * N).reshape(T, N)
    for rows in torch.randperm(N).chunk(2):
        of = numbers[:, rows].flatten()
        _, logp, value, _ = agent.act(
            obs.reshape(-1, 4)[of], first[:, rows], dones.reshape(-1)[of], actions.reshape(-1)[of]
        )
        ratio = (logp - logps.reshape(-1)[of]).exp()
        loss = -(ratio * gains.reshape(-1)[of]).mean()
        loss = loss + 0.5 * (value - returns.reshape(-1)[of]).square().mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
"""
RUNS_ON = ("(1.0 - over).view(1, -1, 1) * h", "h")
FROM_ZEROS = ("first = h.clone()", "first = torch.zeros_like(h)")
LOGS_TURNED = ("logps.reshape(-1)[of]", "logps.T.reshape(-1)[of]")
# Targets of one step, out of the values that acting gave: each weighs the step ahead of it.
ONE_STEP = (
    (
        "    gains, last, goes_on =",
        "    follows = torch.cat([values[1:], after.unsqueeze(0)])\n"
        "    ongoing = 1 - torch.cat([dones[1:], over.unsqueeze(0)])\n"
        "    gains, last, goes_on =",
    ),
    ("gains + values,", "rewards + GAMMA * follows * ongoing,"),
    ("gains.reshape(-1)[of]", "(returns.reshape(-1)[of] - value.detach())"),
)
ROWS_MIX = ("of = numbers[:, rows].flatten()", "of = numbers[:, rows].T.flatten()")

ROOM = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

N, T, HIDDEN, GAMMA = 4, 16, 8, 0.97


class Room(gym.Env):
    observation_space = gym.spaces.Dict(
        image=gym.spaces.Box(0, 1, (1, 3, 3), np.float32),
        body=gym.spaces.Dict(left=gym.spaces.Discrete(12)),
        task=gym.spaces.Text(8),
    )
    action_space = gym.spaces.MultiDiscrete([3, 2])

    def seen(self):
        image = np.zeros((1, 3, 3), np.float32)
        image[0][tuple(self.at)] = 1.0
        if self.left > 8:
            image[0][tuple(self.goal)] += 0.5
        return {"image": image, "body": {"left": self.left}, "task": "find"}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.goal, self.at = self.np_random.integers(0, 3, 2), self.np_random.integers(0, 3, 2)
        self.left = 10
        return self.seen(), {}

    def step(self, action):
        axis, way = (int(action[0]), 1) if action[0] < 2 else (0, -1)
        self.at[axis] = (self.at[axis] + way) % 3
        self.left -= 1
        there = bool(action[1] == 1 and (self.at == self.goal).all())
        return self.seen(), float(there) - 0.1, there, self.left == 0 and not there, {}


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.gru = nn.Linear(10, HIDDEN), nn.GRU(HIDDEN, HIDDEN)
        self.move, self.claim = nn.Linear(HIDDEN, 3), nn.Linear(HIDDEN, 2)
        self.critic = nn.Linear(HIDDEN, 1)

    def states(self, shown, h, done):
        rows = h.shape[1]
        x = torch.cat([shown["image"].reshape(-1, 9), shown["left"].reshape(-1, 1) / 10], -1)
        x, out = torch.tanh(self.enter(x)).reshape(-1, rows, HIDDEN), []
        for one, over in zip(x, done.reshape(-1, rows)):
            y, h = self.gru(one.unsqueeze(0), (1.0 - over).view(1, -1, 1) * h)
            out.append(y)
        return torch.cat(out).flatten(0, 1), h

    def act(self, shown, h, done, action=None):
        y, h = self.states(shown, h, done)
        dists = [Categorical(logits=head(y)) for head in (self.move, self.claim)]
        if action is None:
            action = torch.stack([one.sample() for one in dists], -1)
        logp = sum(one.log_prob(action[..., n]) for n, one in enumerate(dists))
        return action, logp, self.critic(y).flatten(), h


def tensors(shown):
    return {
        "image": torch.as_tensor(shown["image"]),
        "left": torch.as_tensor(shown["body"]["left"]).float(),
    }


torch.manual_seed(0)
envs = gym.vector.SyncVectorEnv(
    [Room for _ in range(N)], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
)
agent = Agent()
optim = torch.optim.Adam(agent.parameters(), 1e-3)
shown = tensors(envs.reset(seed=1)[0])
over, h = torch.ones(N), torch.zeros(1, N, HIDDEN)
obs = {name: torch.zeros(T, *one.shape) for name, one in shown.items()}
actions = torch.zeros(T, N, 2, dtype=torch.long)
logps, rewards, dones, values = (torch.zeros(T, N) for _ in range(4))
for update in range(8):
    first = h.clone()
    for t in range(T):
        for name, one in shown.items():
            obs[name][t] = one
        dones[t] = over
        with torch.no_grad():
            actions[t], logps[t], values[t], h = agent.act(shown, h, over)
        seen, reward, terminated, truncated, info = envs.step(actions[t].numpy())
        rewards[t] = torch.tensor(reward)
        for n in np.nonzero(truncated)[0]:
            final = tensors(info["final_obs"][n])
            with torch.no_grad():
                y, _ = agent.states(final, h[:, n : n + 1], torch.zeros(1))
                rewards[t, n] += GAMMA * agent.critic(y).item()
        shown, over = tensors(seen), torch.tensor(terminated | truncated).float()
    with torch.no_grad():
        after = agent.critic(agent.states(shown, h, over)[0]).flatten()
    gains, last, goes_on = torch.zeros(T, N), 0, 1 - over
    for t in reversed(range(T)):
        last = rewards[t] + GAMMA * after * goes_on - values[t] + GAMMA * 0.9 * goes_on * last
        gains[t], after, goes_on = last, values[t], 1 - dones[t]
    returns = gains + values
    for rows in torch.randperm(N).chunk(2):
        _, logp, value, _ = agent.act(
            {name: one[:, rows].flatten(0, 1) for name, one in obs.items()},
            first[:, rows],
            dones[:, rows],
            actions[:, rows].flatten(0, 1),
        )
        ratio = (logp - logps[:, rows].flatten()).exp()
        loss = -(ratio * gains[:, rows].flatten()).mean()
        loss = loss + 0.5 * (value - returns[:, rows].flatten()).square().mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
"""
BOOTSTRAPS_ENDS = ("after * goes_on - values[t]", "after - values[t]")

# Episodes of one length, of which every rollout is one for each env: no flag is needed.
TRIALS = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

N, T, HIDDEN = 4, 12, 8


class Trial(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.chances, self.left = self.np_random.uniform(0, 1, 2), T
        return np.array([0, 0, 1], np.float32), {}

    def step(self, action):
        self.left -= 1
        won = float(self.np_random.random() < self.chances[action])
        return np.array([2 * action - 1, won, 0], np.float32), won, self.left == 0, False, {}


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.pi, self.v = nn.GRU(3, HIDDEN), nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def forward(self, x, h):
        y, h = self.gru(x, h)
        return Categorical(logits=self.pi(y)), self.v(y).squeeze(-1), h


torch.manual_seed(0)
envs = gym.vector.SyncVectorEnv(
    [Trial for _ in range(N)], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
)
agent = Agent()
optim = torch.optim.Adam(agent.parameters(), 1e-3)
seen, _ = envs.reset(seed=0)
h = torch.zeros(1, N, HIDDEN)
for update in range(12):
    h = torch.zeros(1, N, HIDDEN)
    shown, actions, logps, values, rewards = [], [], [], [], []
    for t in range(T):
        x = torch.as_tensor(seen)
        with torch.no_grad():
            dist, value, h = agent(x.unsqueeze(0), h)
            action = dist.sample()
        seen, reward, _, _, _ = envs.step(action[0].numpy())
        given = x, action[0], dist.log_prob(action)[0], value[0], torch.tensor(reward)
        for into, of in zip((shown, actions, logps, values, rewards), given):
            into.append(of)
    x, action, logp, value, reward = map(torch.stack, (shown, actions, logps, values, rewards))
    returns = reward.float().flip(0).cumsum(0).flip(0)
    dist, now, _ = agent(x, torch.zeros(1, N, HIDDEN))
    ratio = (dist.log_prob(action) - logp).exp()
    loss = (now - returns).square().mean() - (ratio * (returns - value)).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
CARRIED_ON = (
    "for update in range(12):\n    h = torch.zeros(1, N, HIDDEN)\n",
    "for update in range(12):\n",
)
