"""A PPO loop after stable-baselines3's recurrent one: continuous actions are clipped on their way
to the env, the buffer turns its arrays before it is read, and rewards get the value of what a time
limit cut off."""

SCRIPT = """
import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn
from torch.distributions import Normal


class Follow(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Box(-0.5, 0.5, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.speed = self.np_random.normal(size=2)
        self.left = int(self.np_random.integers(5, 9))
        return self.seen(), {}

    def seen(self):
        return np.array([self.at, self.np_random.normal()], np.float32)

    def step(self, action):
        self.speed = 0.9 * self.speed + float(action[0])
        self.at += 0.3 * self.speed
        self.left -= 1
        return self.seen(), -abs(self.at), abs(self.at) > 3, self.left == 0, {}


class Buffer:
    NAMES = ("seen", "acted", "paid", "value", "logp", "start", "h", "gain", "target")

    def __init__(self, steps, envs):
        self.steps, self.envs = steps, envs
        self.reset()

    def reset(self):
        lead = self.steps, self.envs
        self.seen, self.acted = np.zeros((*lead, 2), np.float32), np.zeros((*lead, 1), np.float32)
        self.paid, self.value, self.logp = (np.zeros(lead, np.float32) for _ in range(3))
        self.start, self.gain = np.zeros(lead, np.float32), np.zeros(lead, np.float32)
        self.h = np.zeros((*lead, 16), np.float32)
        self.at, self.turned = 0, False

    def add(self, seen, acted, paid, start, value, logp, h):
        t = self.at
        self.seen[t], self.acted[t], self.paid[t], self.start[t] = seen, acted, paid, start
        self.value[t], self.logp[t], self.h[t] = value, logp, h
        self.at += 1

    def estimate(self, last, done):
        total = 0
        for t in reversed(range(self.steps)):
            final = t == self.steps - 1
            goes_on = 1 - (done.astype(np.float32) if final else self.start[t + 1])
            after = last if final else self.value[t + 1]
            delta = self.paid[t] + 0.95 * after * goes_on - self.value[t]
            self.gain[t] = total = delta + 0.9 * goes_on * total
        self.target = self.gain + self.value

    def rows(self):
        if not self.turned:
            for name in self.NAMES:
                one = getattr(self, name).swapaxes(0, 1)
                setattr(self, name, one.reshape(self.steps * self.envs, *one.shape[2:]))
            self.turned = True
        for env in np.random.permutation(self.envs).reshape(2, -1):
            at = (env[:, None] * self.steps + np.arange(self.steps)).reshape(-1)
            yield {
                name: torch.as_tensor(getattr(self, name)[at].reshape(len(env), self.steps, -1))
                for name in self.NAMES
            }


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.mean, self.value = nn.GRUCell(2, 16), nn.Linear(16, 1), nn.Linear(16, 1)
        self.scale = nn.Parameter(torch.zeros(1))

    def features(self, seen, h, start):
        return self.cell(seen, h * (1 - start).unsqueeze(-1))

    def forward(self, seen, h, start):
        h = self.features(seen, h, start)
        dist = Normal(self.mean(h), self.scale.exp())
        action = dist.sample()
        return action, self.value(h).flatten(), dist.log_prob(action).sum(-1), h

    def predict(self, seen, h, start):
        return self.value(self.features(seen, h, start)).flatten()

    def evaluate(self, rows):
        h, found = rows["h"][:, 0], []
        for t in range(rows["seen"].shape[1]):
            h = self.features(rows["seen"][:, t], h, rows["start"][:, t, 0])
            found.append(h)
        whole = torch.stack(found, 1)
        dist = Normal(self.mean(whole), self.scale.exp())
        return self.value(whole), dist.log_prob(rows["acted"])


np.random.seed(0)
torch.manual_seed(0)


class Trainer:
    def __init__(self):
        envs = [Follow for _ in range(4)]
        self.env = SyncVectorEnv(envs, autoreset_mode=AutoresetMode.SAME_STEP)
        self.policy, self.buffer = Policy(), Buffer(16, 4)
        self.optim = torch.optim.Adam(self.policy.parameters(), 3e-4)
        self.seen, _ = self.env.reset(seed=0)
        self.start, self.h = np.ones(4, bool), torch.zeros(4, 16)

    def collect(self):
        self.buffer.reset()
        h = self.h
        for _ in range(16):
            with torch.no_grad():
                start = torch.tensor(self.start, dtype=torch.float32)
                action, value, logp, h = self.policy(torch.as_tensor(self.seen), h, start)
            action = action.numpy()
            space = self.env.single_action_space
            taken = np.clip(action, space.low, space.high)
            seen, paid, over, cut, info = self.env.step(taken)
            paid, done = paid.astype(np.float32), np.logical_or(over, cut)
            for n in np.flatnonzero(cut & ~over):
                last = torch.as_tensor(info["final_obs"][n]).unsqueeze(0)
                with torch.no_grad():
                    more = self.policy.predict(last, h[n : n + 1], torch.zeros(1))
                paid[n] += 0.95 * more.item()
            self.buffer.add(self.seen, action, paid, self.start, value, logp, self.h)
            self.seen, self.start, self.h = seen, done, h
        with torch.no_grad():
            start = torch.tensor(done, dtype=torch.float32)
            last = self.policy.predict(torch.as_tensor(seen), h, start)
        self.buffer.estimate(last.numpy(), done)

    def train(self):
        for _ in range(2):
            for rows in self.buffer.rows():
                values, logp = self.policy.evaluate(rows)
                ratio = torch.exp(logp - rows["logp"])
                gain = rows["gain"]
                best = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
                loss = -best.mean() + 0.5 * (values - rows["target"]).pow(2).mean()
                self.optim.zero_grad()
                loss.backward()
                self.optim.step()

    def learn(self, updates):
        for _ in range(updates):
            self.collect()
            self.train()


Trainer().learn(6)
"""
OF_THE_RESET = ('torch.as_tensor(info["final_obs"][n])', "torch.as_tensor(seen[n])")
FROM_ZEROS = ("h[n : n + 1], torch", "0 * h[n : n + 1], torch")
TURNED_WRONG = (".swapaxes(0, 1)", "")
AFTER_THE_STEP = ("value, logp, self.h)", "value, logp, h)")
