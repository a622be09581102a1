"""``rnncheck run``: rollouts of at most so many steps, of which the first are whole episodes: what
the later ones, which begin inside of an episode, are trained from is told as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

SCRIPT = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

MOST, HIDDEN, LENGTHS = 12, 8, (9, 10, 9, 20, 9)


class Cues(gym.Env):
    observation_space = gym.spaces.Box(-4, 4, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)
    episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = LENGTHS[self.episodes % len(LENGTHS)]
        self.episodes += 1
        return self.np_random.normal(size=3).astype(np.float32), {}

    def step(self, action):
        self.left -= 1
        shown = self.np_random.normal(size=3).astype(np.float32)
        return shown, float(shown[0]), self.left == 0, False, {}


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.data = []
        self.look, self.lstm = nn.Linear(3, HIDDEN), nn.LSTM(HIDDEN, HIDDEN)
        self.actor, self.critic = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)

    def pi(self, x, hidden):
        out, hidden = self.lstm(torch.tanh(self.look(x)).view(-1, 1, HIDDEN), hidden)
        return torch.softmax(self.actor(out), 2), hidden

    def v(self, x, hidden):
        return self.critic(self.lstm(torch.tanh(self.look(x)).view(-1, 1, HIDDEN), hidden)[0])

    def make_batch(self):
        s, a, r, after, probs, before, behind, done = zip(*self.data)
        self.data = []
        on = [[0.0 if one else 1.0] for one in done]
        lists = (np.array(s), [[one] for one in a], [[one] for one in r], np.array(after), on)
        made = [torch.tensor(one) for one in lists]
        return *made, torch.tensor([[one] for one in probs]), before[0], behind[0]

    def train_net(self):
        s, a, r, after, on, probs, (h1, c1), (h2, c2) = self.make_batch()
        first, second = (h1.detach(), c1.detach()), (h2.detach(), c2.detach())
        target = r.float() + 0.9 * self.v(after, second).squeeze(1) * on
        value = self.v(s, first).squeeze(1)
        delta = (target - value).detach()
        pi, _ = self.pi(s, first)
        ratio = pi.squeeze(1).gather(1, a) / probs
        loss = (value - target.detach()).square() - ratio * delta
        self.optimizer.zero_grad()
        loss.mean().backward()
        self.optimizer.step()


def main():
    torch.manual_seed(0)
    env, model = Cues(), Agent()
    for episode in range(40):
        after = (torch.zeros(1, 1, HIDDEN), torch.zeros(1, 1, HIDDEN))
        s, _ = env.reset(seed=episode)
        done = False
        while not done:
            for t in range(MOST):
                before = after
                prob, after = model.pi(torch.from_numpy(s).float(), before)
                prob = prob.view(-1)
                a = Categorical(prob).sample().item()
                shown, r, done, _, _ = env.step(a)
                model.data.append((s, a, r, shown, prob[a].item(), before, after, done))
                s = shown
                if done:
                    break
            model.train_net()


main()
"""
ZEROS = (
    "first, second = (h1.detach(), c1.detach())",
    "first, second = (torch.zeros_like(h1), torch.zeros_like(c1))",
)
WHOLE = ("MOST, HIDDEN, LENGTHS = 12,", "MOST, HIDDEN, LENGTHS = 32,")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="from the state that acting had"),
        pytest.param((ZEROS,), (ExitCode.FAILED, ["RP504"]), id="from zeros"),
        pytest.param((ZEROS, WHOLE), (ExitCode.VERIFIED, []), id="from zeros, whole episodes"),
    ],
)
def test_one_that_begins_inside_is_waited_for(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: Any
) -> None:
    assert judged(rnncheck, tmp_path, "RP504,CL403", SCRIPT, *changes) == expected
