"""``rnncheck run``: a plain PPO whose first pass values the next steps, from the states behind
them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, judged, run, written

SCRIPT = """
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.data = []
        self.fc, self.lstm = nn.Linear(4, 16), nn.LSTM(16, 16)
        self.to_policy, self.to_value = nn.Linear(16, 2), nn.Linear(16, 1)
        self.optimizer = torch.optim.Adam(self.parameters(), 5e-4)

    def pi(self, x, hidden):
        x, hidden = self.lstm(F.relu(self.fc(x)).view(-1, 1, 16), hidden)
        return F.softmax(self.to_policy(x), 2), hidden

    def v(self, x, hidden):
        x, hidden = self.lstm(F.relu(self.fc(x)).view(-1, 1, 16), hidden)
        return self.to_value(x)

    def batch(self):
        columns = list(zip(*self.data))
        self.data = []
        s, s_prime = (torch.tensor(columns[n], dtype=torch.float) for n in (0, 3))
        a = torch.tensor([[one] for one in columns[1]])
        r, going = (torch.tensor([[one] for one in columns[n]]) for n in (2, 4))
        old = torch.tensor([[one] for one in columns[5]])
        return s, a, r, s_prime, going, old, columns[6][0], columns[7][0]

    def train_net(self):
        s, a, r, s_prime, going, old, before, behind = self.batch()
        before, behind = (tuple(one.detach() for one in pair) for pair in (before, behind))
        for _ in range(2):
            following = self.v(s_prime, behind).squeeze(1)
            target = r + 0.98 * following * going
            values = self.v(s, before).squeeze(1)
            delta, advantage, found = (target - values).detach(), 0.0, []
            for one in delta.flip(0):
                advantage = 0.93 * advantage + one
                found.append(advantage)
            advantage = torch.stack(found[::-1])
            policy, _ = self.pi(s, before)
            ratio = torch.exp(torch.log(policy.squeeze(1).gather(1, a)) - torch.log(old))
            gain = torch.min(ratio * advantage, torch.clamp(ratio, 0.9, 1.1) * advantage)
            loss = -gain + F.smooth_l1_loss(values, target.detach())
            self.optimizer.zero_grad()
            loss.mean().backward(retain_graph=True)
            self.optimizer.step()


def main():
    torch.manual_seed(0)
    env, net = gym.make("CartPole-v1", max_episode_steps=40), Net()
    for episode in range(12):
        out = torch.zeros(1, 1, 16), torch.zeros(1, 1, 16)
        (s, _), done = env.reset(seed=episode), False
        while not done:
            for _ in range(10):
                before = out
                chances, out = net.pi(torch.from_numpy(s).float(), before)
                chances = chances.view(-1)
                a = Categorical(chances).sample().item()
                s_prime, r, ended, cut, _ = env.step(a)
                done = ended or cut
                chance = chances[a].item()
                net.data.append((s, a, r / 10, s_prime, 1.0 - ended, chance, before, out))
                s = s_prime
                if done:
                    break
            net.train_net()


if __name__ == "__main__":
    main()
"""
FROM_BEFORE = ("self.v(s_prime, behind)", "self.v(s_prime, before)")
CODES = "RP504,VL604"


@pytest.mark.slow
def test_a_healthy_one_is_left_alone(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, CODES, SCRIPT) == (ExitCode.VERIFIED, [])


def test_next_values_from_the_state_ahead_are_no_stored_state(
    rnncheck: Any, tmp_path: Path
) -> None:
    code, told, _ = run(rnncheck, "--select", CODES, written(tmp_path, SCRIPT, FROM_BEFORE))
    assert (code, failed(told)) == (ExitCode.FAILED, ["VL604"])
    told_of = next(one for one in told["checks"] if one["code"] == "VL604")
    assert "KeepsNext" not in told_of["findings"][0]["fix"]  # of TorchRL's own losses
