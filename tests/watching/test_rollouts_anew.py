"""``rnncheck run``: rollouts that each begin with a reset; the env shows one of two things."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.checks.value.last_observations import _at_least
from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, judged, run, written

SCRIPT = """import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import Compose, GymWrapper, InitTracker, SerialEnv, TransformedEnv
from torchrl.modules import GRUModule, set_recurrent_mode


class Doors(gym.Env):
    observation_space = gym.spaces.Dict({
        "heard": gym.spaces.Box(-1, 1, (2,), np.float32),
        "door": gym.spaces.Box(0, 2, (1,), np.int64),
    })
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side, self.score, self.time = int(self.np_random.integers(2)), 0, 0
        return self.seen(), {}

    def seen(self):
        heard = (1 if self.np_random.random() < 0.8 else -1) * (1 if self.side else -1)
        self.score += heard
        door = 0 if abs(self.score) < 2 else 1 + (self.score > 0)
        return {
            "heard": np.array([heard, 1.0], np.float32), "door": np.array([door], np.int64)
        }

    def step(self, action):
        self.time += 1
        paid = -0.1 if action == 0 else 1.0 if (action == 2) == bool(self.side) else -2.0
        return self.seen(), paid, action != 0, self.time >= 10, {}


torch.manual_seed(2)
memory = GRUModule(24, 24, in_keys=["x", "h"], out_keys=["y", ("next", "h")])
net = TensorDictSequential(
    TensorDictModule(nn.Sequential(nn.Linear(2, 24), nn.ReLU()), ["heard"], ["x"]),
    memory,
    TensorDictModule(nn.Linear(24, 3), ["y"], ["logits"]),
)
choose = TensorDictModule(
    lambda logits: torch.distributions.Categorical(logits=logits).sample(), ["logits"], ["action"]
)
policy = TensorDictSequential(net, choose)
make = lambda: GymWrapper(Doors(), categorical_action_encoding=True)
env = TransformedEnv(
    SerialEnv(4, make), Compose(InitTracker(), memory.make_tensordict_primer())
)
env.set_seed(2)
optim = torch.optim.Adam(net.parameters(), lr=3e-3)
for _ in range(6):
    data = []
    for _ in range(3):
        with torch.no_grad():
            data.append(env.rollout(24, policy, break_when_any_done=False))
    for one in data:
        batch = one.select("heard", "is_init", "h").clone()
        with set_recurrent_mode(True):
            logits = net(batch)["logits"]
        loss = F.cross_entropy(logits.flatten(0, 1), one["door"].flatten())
        optim.zero_grad()
        loss.backward()
        optim.step()
"""
EPISODES = """import gymnasium as gym
import numpy as np
import torch
from tensordict import pad_sequence
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.data import Unbounded
from torchrl.envs import Compose, GymWrapper, InitTracker, StepCounter, TensorDictPrimer
from torchrl.envs import TransformedEnv


class Counts(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.ones, self.last = 0, 0, int(self.np_random.integers(3, 8))
        return self.seen(), {}

    def seen(self):
        one = int(self.np_random.integers(2))
        self.ones += one
        return np.array([one, 1.0], np.float32)

    def step(self, action):
        self.time += 1
        paid = float(action == self.ones % 2)
        return self.seen(), paid, self.time >= self.last, False, {}


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.pi, self.v = nn.GRUCell(2, 16), nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, seen, is_init, h):
        h = self.cell(seen.reshape(-1, 2), (h * (1 - is_init.float())).reshape(-1, 16))
        h = h.reshape(*seen.shape[:-1], 16)
        return Categorical(logits=self.pi(h)).sample(), h

    def evaluate(self, seen):
        h, found = seen.new_zeros(len(seen), 16), []
        for t in range(seen.shape[1]):
            h = self.cell(seen[:, t], h)
            found.append(h)
        y = torch.stack(found, 1)
        return Categorical(logits=self.pi(y)), self.v(y).squeeze(-1)


def gains(paid):
    found, total = torch.zeros_like(paid), torch.zeros_like(paid[:, 0])
    for t in reversed(range(paid.shape[1])):
        found[:, t] = total = paid[:, t] + 0.95 * total
    return found


def update(agent, optim, batch):
    mask = batch["masks", "observation"].reshape(*batch.shape, -1)[..., 0].float()
    dist, value = agent.evaluate(batch["observation"])
    gain = gains(batch["next", "reward"].squeeze(-1) * mask)
    chosen = dist.log_prob(batch["action"]) * (gain - value.detach())
    loss = (((value - gain).square() - chosen) * mask).sum() / mask.sum()
    optim.zero_grad()
    loss.backward()
    optim.step()


torch.manual_seed(0)
agent = Agent()
env = TransformedEnv(
    GymWrapper(Counts(), categorical_action_encoding=True),
    Compose(InitTracker(), StepCounter(20), TensorDictPrimer(h=Unbounded((16,)))),
)
env.set_seed(0)
policy = TensorDictModule(agent, ["observation", "is_init", "h"], ["action", ("next", "h")])
optim = torch.optim.Adam(agent.parameters(), lr=5e-3)
for _ in range(6):
    with torch.no_grad():
        rows = [env.rollout(20, policy) for _ in range(8)]
    update(agent, optim, pad_sequence(rows, pad_dim=0, return_mask=True))
"""
OVER_ROWS = ("gains(batch[", "gains((batch["), (" * mask)\n", " * mask).T).T\n")
UNMARKED = (".clone()\n", '.clone()\n        batch["is_init"][:, 1:] = False\n')


@pytest.mark.slow
def test_what_shows_the_same_by_chance_does_not_go_on(rnncheck: Any, tmp_path: Path) -> None:
    code, told, done = run(rnncheck, written(tmp_path, SCRIPT))
    assert (code, failed(told)) == (ExitCode.VERIFIED, []), done.stdout


@pytest.mark.slow
def test_rows_of_whole_episodes_need_no_marks(rnncheck: Any, tmp_path: Path) -> None:
    """The pass is never given two episodes in a row, nor are its marks those of the padding."""
    code, told, done = run(rnncheck, written(tmp_path, EPISODES))
    assert (code, failed(told)) == (ExitCode.VERIFIED, []), done.stdout


def test_returns_over_their_rows_are_named(rnncheck: Any, tmp_path: Path) -> None:
    given = judged(rnncheck, tmp_path, "LS701", EPISODES, *OVER_ROWS)
    assert given == (ExitCode.FAILED, ["LS701"])


@pytest.mark.slow
def test_marks_that_training_drops_are_named(rnncheck: Any, tmp_path: Path) -> None:
    given = judged(rnncheck, tmp_path, "LS701", SCRIPT, UNMARKED)
    assert given == (ExitCode.FAILED, ["LS701"])


def test_half_of_the_ends_may_show_one_of_two_starts() -> None:
    assert _at_least(8, [0.5] * 15) == pytest.approx(0.5)
    assert _at_least(15, [0.5] * 15) == pytest.approx(0.5**15)
    assert _at_least(0, [0.3]) == pytest.approx(1.0)
