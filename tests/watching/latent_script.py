"""A world model with a stochastic latent, that learns from windows out of a flat log.

The log holds ``is_first`` of each step beside rewards of 1, and of 0 where an episode begins.
"""

from __future__ import annotations

LATENT = """import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Independent, Normal, OneHotCategorical, kl_divergence

H, Z, SEQ, BATCH = 12, 4, 10, 5


def dist(out):
    mean, std = out.chunk(2, -1)
    return Independent(Normal(mean, nn.functional.softplus(std) + 0.1), 1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.cell = nn.Linear(2, H), nn.GRUCell(Z + 2, H)
        self.prior, self.post = nn.Linear(H, 2 * Z), nn.Linear(2 * H, 2 * Z)
        self.told, self.reward = nn.Linear(H + Z, 2), nn.Linear(H + Z, 1)
        self.over, self.actor = nn.Linear(H + Z, 1), nn.Linear(H + Z, 2)

    def step(self, state, last, code, first):
        keep = (1 - first).unsqueeze(-1)
        deter, stoch = (one * keep for one in state)
        deter = self.cell(torch.cat([stoch, last * keep], -1), deter)
        post = dist(self.post(torch.cat([deter, code], -1)))
        return (deter, post.rsample()), post, dist(self.prior(deter))

    @torch.no_grad()
    def policy(self, obs, state, first):
        latent, last = state
        latent, _, _ = self.step(latent, last, self.encoder(obs), first)
        action = OneHotCategorical(logits=self.actor(torch.cat(latent, -1))).sample()
        return action, (latent, action)

    def observe(self, data):
        state, codes, feats, apart = begins(BATCH), self.encoder(data["obs"]), [], []
        for t in range(SEQ):
            state, post, prior = self.step(state, data["last"][t], codes[t], data["is_first"][t])
            feats.append(torch.cat(state, -1))
            apart.append(kl_divergence(post, prior))
        return torch.stack(feats), torch.stack(apart)


def begins(n):
    return torch.zeros(n, H), torch.zeros(n, Z)


def loss_of(model, data):
    feat, apart = model.observe(data)
    told = (model.told(feat) - data["obs"]).square().sum(-1).mean()
    after = 1 - data["is_first"]
    apart_of = (model.reward(feat).squeeze(-1) - data["reward"]).square()
    rewards = (apart_of * after).sum() / after.sum()
    over = nn.functional.binary_cross_entropy_with_logits(
        model.over(feat).squeeze(-1), 1 - data["terminal"]
    )
    return told + rewards + over + 0.5 * apart.mean()


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    env, model = gym.make("CartPole-v1", max_episode_steps=30), Model()
    optim = torch.optim.Adam(model.parameters(), 1e-3)
    log = {k: [] for k in ("obs", "last", "reward", "terminal", "is_first")}

    def record(*values):
        for k, x in zip(log, values):
            log[k].append(torch.as_tensor(x, dtype=torch.float32))

    def begin(seen):
        seen = torch.as_tensor(seen[::2])
        record(seen, torch.zeros(2), 0.0, 0.0, 1.0)
        return seen, True

    obs, first = begin(env.reset(seed=0)[0])
    state = (begins(1), torch.zeros(1, 2))
    for step in range(1, 211):
        action, state = model.policy(obs[None], state, torch.tensor([float(first)]))
        o, r, term, trunc, _ = env.step(int(action.argmax()))
        obs, first = torch.as_tensor(o[::2]), False
        record(obs, action[0], r, float(term), 0.0)
        if term or trunc:
            obs, first = begin(env.reset()[0])
        if step >= 90 and step % 30 == 0:
            starts = rng.integers(0, len(log["obs"]) - SEQ, size=BATCH)
            data = {
                k: torch.stack([torch.stack(v[s : s + SEQ]) for s in starts], 1)
                for k, v in log.items()
            }
            loss = loss_of(model, data)
            optim.zero_grad()
            loss.backward()
            optim.step()


main()
"""
# No two windows hold the same step.
APART = (
    'rng.integers(0, len(log["obs"]) - SEQ, size=BATCH)',
    'rng.choice((len(log["obs"]) - 1) // SEQ, BATCH, replace=False) * SEQ',
)
NOT_RESET = ('codes[t], data["is_first"][t]', 'codes[t], 0 * data["is_first"][t]')
# The training pass takes the mean of what acting draws.
MEAN = (
    (
        "def step(self, state, last, code, first):",
        "def step(self, state, last, code, first, acts=0):",
    ),
    ("(deter, post.rsample())", "(deter, post.rsample() if acts else post.mean)"),
    ("self.encoder(obs), first)", "self.encoder(obs), first, 1)"),
)
