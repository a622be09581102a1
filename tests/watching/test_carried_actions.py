"""``rnncheck run``: a policy that is given its own last action; the env gets a multiple of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

SCRIPT = """
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Normal

HIDDEN, STEPS = 12, 24
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, HIDDEN)
        self.mean, self.value = nn.Linear(HIDDEN, 1), nn.Linear(HIDDEN, 1)

    def forward(self, last, obs, state):
        h, state = self.rnn(torch.cat([last, obs], -1), state)
        return Normal(torch.tanh(self.mean(h)), 0.3), self.value(h), state

    @torch.no_grad()
    def act(self, last, obs, state):
        dist, _, state = self(last.unsqueeze(0), obs.unsqueeze(0), state)
        return dist.sample().squeeze(0), state


env = gym.make("Pendulum-v1", max_episode_steps=STEPS)
net = Net()
optim = torch.optim.Adam(net.parameters(), 1e-3)
for episode in range(12):
    seen, _ = env.reset(seed=episode)
    obs = torch.tensor(seen[:2]).view(1, -1)
    action, state, done = torch.zeros(1, 1), torch.zeros(1, 1, HIDDEN), False
    xs, acts, rews = [], [], []
    while not done:
        action, state = net.act(action, obs, state)
        xs.append(obs)
        acts.append(action)
        seen, reward, terminated, truncated, _ = env.step(2.0 * action[0].numpy())
        rews.append(torch.tensor([[reward]], dtype=torch.float32))
        obs, done = torch.tensor(seen[:2]).view(1, -1), terminated or truncated
    taken = torch.stack(acts)
    last = torch.cat([torch.zeros_like(taken[:1]), taken[:-1]])
    dist, value, _ = net(last, torch.stack(xs), torch.zeros(1, 1, HIDDEN))
    after, found = torch.zeros(1, 1), []
    for r in reversed(rews):
        after = r + 0.95 * after
        found.append(after)
    gain = torch.stack(found[::-1]) - value
    loss = gain.square().mean() - (dist.log_prob(taken) * gain.detach()).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
UNSHIFTED = ("torch.cat([torch.zeros_like(taken[:1]), taken[:-1]])", "taken")


@pytest.mark.parametrize(("changes", "healthy"), [((), True), ((UNSHIFTED,), False)])
def test_it_is_a_state_beside_the_action_of_the_env(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], healthy: bool
) -> None:
    codes = "CL402,CL403,CL406,EQ201,RP504,RP507"
    ended, found = judged(rnncheck, tmp_path, codes, SCRIPT, *changes)
    assert ended == (ExitCode.VERIFIED if healthy else ExitCode.FAILED)
    assert bool(found) is not healthy
    assert not {"CL402", "CL403"} & set(found)
