"""``rnncheck run``: a recurrent TD3 in one method, which trains its actor at some updates alone: by
a count of its own, or as it is told by an argument."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

SCRIPT = """
import copy

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule as Mod, TensorDictSequential as Seq
from torch import nn
from torch.nn import functional as F
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import (
    Compose, DoubleToFloat, GymEnv, InitTracker, RewardScaling, StepCounter, TransformedEnv,
)
from torchrl.modules import AdditiveGaussianModule, GRUModule, set_recurrent_mode
from torchrl.modules.utils import get_primers_from_module

LENGTH, WIDTH, DELAY = 20, 16, 2


class Angle(nn.Module):
    def forward(self, observation):
        return observation[..., :2]


def make_actor():
    keys = dict(in_keys=["seen", "h"], out_keys=["feature", ("next", "h")])
    return Seq(
        Mod(nn.Sequential(Angle(), nn.Linear(2, WIDTH), nn.ReLU()), ["observation"], ["seen"]),
        GRUModule(input_size=WIDTH, hidden_size=WIDTH, **keys),
        Mod(nn.Sequential(nn.Linear(WIDTH, 1), nn.Tanh()), ["feature"], ["action"]),
    )


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, WIDTH, batch_first=True)
        self.head = nn.Sequential(nn.Linear(WIDTH + 1, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, seen, before, action):
        memory, _ = self.gru(torch.cat([seen[..., :2], before], -1))
        return self.head(torch.cat([memory[:, : action.shape[1]], action], -1))


class Agent:
    def __init__(self):
        self.actor, self.critic = make_actor(), Critic()
        nets = self.actor, self.critic
        self.actor_t, self.critic_t = (copy.deepcopy(one).requires_grad_(False) for one in nets)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), 1e-3)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), 1e-3)
        self.updates = 0

    def act(self, actor, seen, start):
        td = TensorDict({"observation": seen, "is_init": start}, seen.shape[:2])
        with set_recurrent_mode(True):
            return actor(td)["action"]

    def update(self, batch, both=None):
        seen = torch.cat([batch["observation"], batch["next", "observation"][:, -1:]], 1)
        none = torch.zeros_like(batch["is_init"][:, :1])
        start = torch.cat([batch["is_init"], none], 1)
        before = torch.cat([torch.zeros_like(batch["action"][:, :1]), batch["action"]], 1)
        with torch.no_grad():
            following = self.critic_t(seen, before, self.act(self.actor_t, seen, start))[:, 1:]
            ended = batch["next", "terminated"].float()
            target = batch["next", "reward"] + 0.97 * (1 - ended) * following
        loss = F.mse_loss(self.critic(seen, before, batch["action"]), target)
        self.opt_c.zero_grad()
        loss.backward()
        self.opt_c.step()
        self.updates += 1
        if both or (both is None and self.updates % DELAY == 0):
            chosen = self.act(self.actor, seen, start)
            actors = -self.critic(seen, before, chosen)[:, :-1].mean()
            self.opt_a.zero_grad()
            actors.backward()
            self.opt_a.step()
        return loss.item()


def main():
    torch.manual_seed(0)
    agent = Agent()
    env = TransformedEnv(GymEnv("Pendulum-v1"), Compose(
        DoubleToFloat(), InitTracker(), StepCounter(LENGTH), RewardScaling(0.0, 0.1)))
    env.append_transform(get_primers_from_module(agent.actor))
    env.set_seed(0)
    noise = AdditiveGaussianModule(spec=env.action_spec, sigma_init=0.2, sigma_end=0.2)
    collector = Collector(
        env, Seq(agent.actor, noise), frames_per_batch=LENGTH, total_frames=14 * LENGTH
    )
    memory = ReplayBuffer(storage=LazyTensorStorage(50), batch_size=4)
    for count, data in enumerate(collector):
        memory.extend(data.unsqueeze(0))
        for _ in range(2 if count >= 4 else 0):
            agent.update(memory.sample())


if __name__ == "__main__":
    main()
"""
TOLD = (
    "for _ in range(2 if count >= 4 else 0):\n            agent.update(memory.sample())",
    "for n in range(2 if count >= 4 else 0):\n"
    "            agent.update(memory.sample(), both=n == 1)",
)
AHEAD = (
    ("        self.updates += 1\n", ""),
    (
        "        seen = torch.cat([batch",
        "        self.updates += 1\n        seen = torch.cat([batch",
    ),
)
FORMS = {
    "counted": (),
    "counted ahead": AHEAD,
    "at every fourth": (("DELAY = 20, 16, 2", "DELAY = 20, 16, 4"),),
    "once for each batch": (("range(2 if", "range(1 if"),),
    "told": (TOLD,),
}
ALONE = (
    "chosen = self.act(self.actor, seen, start)",
    """td = TensorDict({"observation": seen, "is_init": start}, seen.shape[:2])
            chosen = self.actor(td.reshape(-1))["action"].reshape(*seen.shape[:2], 1)""",
)


@pytest.mark.first(2)
@pytest.mark.parametrize("form", FORMS)
def test_the_actor_gets_gradients(rnncheck: Any, tmp_path: Path, form: str) -> None:
    given = judged(rnncheck, tmp_path, "GR803", SCRIPT, *FORMS[form])
    assert given == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize("form", ["counted", "told"])
def test_an_actor_that_is_trained_step_by_step_is_named(
    rnncheck: Any, tmp_path: Path, form: str
) -> None:
    given = judged(rnncheck, tmp_path, "LS703", SCRIPT, *FORMS[form], ALONE)
    assert given == (ExitCode.FAILED, ["LS703"])


def test_an_actor_that_no_update_trains_is_named(rnncheck: Any, tmp_path: Path) -> None:
    never = ("% DELAY == 0", "% DELAY == -1")
    given = judged(rnncheck, tmp_path, "GR803", SCRIPT, never)
    assert given == (ExitCode.FAILED, ["GR803"])
