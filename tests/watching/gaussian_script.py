"""A script of a Gaussian actor on Pendulum, whose actions are clipped for the env alone."""

from __future__ import annotations

SCRIPT = """\
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Normal

STEPS, LENGTH = 48, 24


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 16)
        self.mu = nn.Linear(16, 1)
        self.log_std = nn.Parameter(torch.zeros(1))
        self.value = nn.Linear(16, 1)

    def forward(self, x, state=None):
        out, state = self.lstm(x, state)
        return 2 * torch.tanh(self.mu(out)), self.log_std.exp(), self.value(out), state


def main():
    torch.manual_seed(0)
    env = gym.make("Pendulum-v1", max_episode_steps=LENGTH)
    net = Policy()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for it in range(8):
        obs, _ = env.reset(seed=it)
        state, over = None, False
        xs, actions, logps, rewards = [], [], [], []
        while not over:
            x = torch.as_tensor(obs, dtype=torch.float32)
            with torch.no_grad():
                mu, std, _, state = net(x.view(1, 1, -1), state)
            dist = Normal(mu.view(-1), std)
            a = dist.sample()
            obs, r, terminated, truncated, _ = env.step(a.numpy().clip(-2, 2))
            over = terminated or truncated
            xs.append(x)
            actions.append(a)
            rewards.append(r / 10.0)
            logps.append(dist.log_prob(a))
        xs, actions, old = torch.stack(xs).unsqueeze(1), torch.cat(actions), torch.cat(logps)
        returns, g = [], 0.0
        for r in reversed(rewards):
            g = r + 0.95 * g
            returns.insert(0, g)
        returns = torch.tensor(returns, dtype=torch.float32)
        mu, std, value, _ = net(xs)
        mu, value = mu[:, 0, 0], value[:, 0, 0]
        log_prob = Normal(mu, std).log_prob(actions)
        advantage = returns - value
        ratio = (log_prob - old).exp()
        loss = -(ratio * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""
MEANS = ("mu[:, 0, 0]", "mu[:, 0]")
# Pendulum's rewards tell apart which actions were taken: what is stored may not be the action.
CLIPPED_OF_OTHERS = ("actions.append(a)", "actions.append(dist.sample())")
