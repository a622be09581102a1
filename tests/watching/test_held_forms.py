"""``rnncheck run``: plain loops that hold their state and their rollouts in many ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.held_script import KEPT, RETURNS, ROLLOUTS, STARTS, STATES, ZEROS, script
from tests.watching.scripts import failed, run


def ran(rnncheck: Any, folder: Path, *options: str, **ways: str) -> tuple[int, list[str]]:
    (folder / "train.py").write_text(script(**ways))
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, failed(told)


@pytest.mark.parametrize(
    "options", [("--select", "BD,CL,RP"), pytest.param((), marks=pytest.mark.slow)]
)
def test_a_healthy_loop_is_verified(
    rnncheck: Any, tmp_path: Path, options: tuple[str, ...]
) -> None:
    ways = {"rollout": "agent", "state": "None at first"}
    assert ran(rnncheck, tmp_path, *options, **ways) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
@pytest.mark.parametrize("rollout", ROLLOUTS)
def test_rollouts_are_found_wherever_they_are_held(
    rnncheck: Any, tmp_path: Path, rollout: str
) -> None:
    assert ran(rnncheck, tmp_path, rollout=rollout) == (ExitCode.VERIFIED, [])
    code, names = ran(rnncheck, tmp_path, rollout=rollout, fault=RETURNS)
    assert (code, "LS701" in names) == (ExitCode.FAILED, True)


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_states_are_found_wherever_they_are_held(rnncheck: Any, tmp_path: Path, state: str) -> None:
    assert ran(rnncheck, tmp_path, state=state) == (ExitCode.VERIFIED, [])
    for fault, name in ((KEPT, "CL403"), (STARTS, "BD301"), (ZEROS, "RP504")):
        code, names = ran(rnncheck, tmp_path, state=state, fault=fault)
        assert (code, name in names) == (ExitCode.FAILED, True), (fault, names)


SHUFFLED = """
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical

STEPS, ENVS, HIDDEN = 32, 4, 16


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, HIDDEN)
        self.policy, self.value = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def step(self, x, h, masks):
        h = self.cell(x, h * masks.unsqueeze(-1))
        return Categorical(logits=self.policy(h)), self.value(h).squeeze(-1), h

    def act(self, x, h, masks):
        with torch.no_grad():
            found, value, h = self.step(x, h, masks)
            action = found.sample()
            return action, found.log_prob(action), value, h

    def evaluate(self, xs, h, masks, actions):
        told, values = [], []
        for x, mask, action in zip(xs, masks, actions):
            found, value, h = self.step(x, h, mask)
            told.append(found.log_prob(action))
            values.append(value)
        return torch.stack(told), torch.stack(values)


class Rollout:
    def __init__(self):
        self.xs, self.h = torch.zeros(STEPS + 1, ENVS, 4), torch.zeros(STEPS + 1, ENVS, HIDDEN)
        self.masks, self.rewards = torch.ones(STEPS + 1, ENVS), torch.zeros(STEPS, ENVS)
        self.actions = torch.zeros(STEPS, ENVS, dtype=torch.long)
        self.told, self.values = torch.zeros(STEPS, ENVS), torch.zeros(STEPS + 1, ENVS)
        self.returns = torch.zeros(STEPS + 1, ENVS)

    def finish(self, last):
        self.values[-1], gae = last, 0
        for t in reversed(range(STEPS)):
            m = MASK
            delta = self.rewards[t] + 0.9 * self.values[t + 1] * m - self.values[t]
            gae = delta + 0.9 * 0.95 * m * gae
            self.returns[t] = gae + self.values[t]

    def minibatches(self):
        for rows in torch.randperm(ENVS).chunk(2):
            gain = (self.returns - self.values)[:-1]
            mine = GAIN
            yield rows, ((gain - mine.mean()) / (mine.std() + 1e-5))[:, rows]


torch.manual_seed(0)
envs = gym.vector.SyncVectorEnv(
    [lambda: gym.make("CartPole-v1")] * ENVS, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
)
net, data = Net(), Rollout()
optim = torch.optim.Adam(net.parameters())
data.xs[0] = torch.as_tensor(envs.reset(seed=0)[0])
for _ in range(4):
    for t in range(STEPS):
        action, told, value, h = net.act(data.xs[t], data.h[t], data.masks[t])
        seen, reward, terminated, truncated, _ = envs.step(action.numpy())
        data.actions[t], data.told[t], data.values[t], data.h[t + 1] = action, told, value, h
        data.rewards[t] = torch.as_tensor(reward)
        data.xs[t + 1] = torch.as_tensor(seen)
        data.masks[t + 1] = 1.0 - torch.as_tensor(terminated | truncated).float()
    with torch.no_grad():
        _, last, _ = net.step(data.xs[-1], data.h[-1], data.masks[-1])
    data.finish(last)
    for rows, gain in data.minibatches():
        told, values = net.evaluate(
            data.xs[:-1, rows], data.h[0, rows], data.masks[:-1, rows], data.actions[:, rows]
        )
        ratio = (told - data.told[:, rows]).exp()
        best = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        loss = (values - data.returns[:-1, rows]).square().mean() - best.mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
    for one in (data.xs, data.h, data.masks):
        one[0] = one[-1]
"""


@pytest.mark.slow
@pytest.mark.parametrize("gain", ["gain[:, rows]", "gain"])
@pytest.mark.parametrize(
    ("mask", "code", "names"),
    [
        ("self.masks[t + 1]", ExitCode.VERIFIED, []),
        ("self.masks[t]", ExitCode.FAILED, ["LS701"]),
        ("1.0", ExitCode.FAILED, ["LS701"]),
    ],
)
def test_minibatches_of_shuffled_envs(
    rnncheck: Any, tmp_path: Path, mask: str, code: int, names: list[str], gain: str
) -> None:
    """Advantages are normalised, within a minibatch or over all of them."""
    path = tmp_path / "train.py"
    path.write_text(SHUFFLED.replace("MASK", mask).replace("GAIN", gain))
    ended, told, _ = run(rnncheck, path)
    assert (ended, failed(told)) == (code, names)
