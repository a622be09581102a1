"""``rnncheck run``: a policy that adds a dimension of time of its own while acting, and parts of it
that run over sequences in an own loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

SCRIPT = """
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase, InitTracker, TensorDictPrimer, TransformedEnv
from torchrl.modules import IndependentNormal, ProbabilisticActor

ENVS, STEPS, LENGTH, HIDDEN = 4, 24, 8, 12


class Hidden(EnvBase):
    def __init__(self):
        super().__init__(batch_size=[ENVS])
        self.observation_spec = Composite(observation=Unbounded((ENVS, 2)), shape=[ENVS])
        self.action_spec = Bounded(-1, 1, (ENVS, 1))
        self.reward_spec = Unbounded((ENVS, 1))
        self.goal, self.x = torch.zeros(ENVS, 1), torch.zeros(ENVS, 1)
        self.left = torch.zeros(ENVS, 1, dtype=torch.long)

    def _shown(self, begins):
        return torch.cat([self.x, self.goal * begins], -1)

    def _reset(self, td=None):
        over = torch.ones(ENVS, 1, dtype=torch.bool)
        if td is not None and "_reset" in td.keys():
            over = td["_reset"].reshape(ENVS, 1)
        self.goal = torch.where(over, torch.rand(ENVS, 1) * 2 - 1, self.goal)
        self.x = torch.where(over, torch.zeros(ENVS, 1), self.x)
        self.left = torch.where(over, torch.randint(5, 12, (ENVS, 1)), self.left)
        return TensorDict({"observation": self._shown(over)}, [ENVS])

    def _step(self, td):
        self.x, self.left = self.x + 0.3 * td["action"], self.left - 1
        shown = self._shown(torch.zeros(ENVS, 1))
        reward, done = -(self.x - self.goal).abs(), self.left <= 0
        return TensorDict(
            {"observation": shown, "reward": reward, "done": done, "terminated": done.clone()},
            [ENVS],
        )

    def _set_seed(self, seed):
        torch.manual_seed(seed)


class GRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRUCell(16, HIDDEN)

    def forward(self, x, is_init, hx):
        hx, out = hx[:, 0], []
        for t in range(x.shape[1]):
            hx = self.gru(x[:, t], hx * (~is_init[:, t]).float())
            out.append(hx)
        return torch.stack(out, 1), hx.unsqueeze(1).expand(-1, x.shape[1], -1)


class Normal(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.std = nn.Linear(HIDDEN, 1), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        mean = self.mean(x)
        return mean, self.std.exp().expand_as(mean)


class Policy(TensorDictModuleBase):
    def __init__(self):
        super().__init__()
        body = TensorDictSequential(
            TensorDictModule(nn.Linear(2, 16), ["observation"], ["feature"]),
            TensorDictModule(GRU(), ["feature", "is_init", "hx"], ["feature", ("next", "hx")]),
            TensorDictModule(Normal(), ["feature"], ["loc", "scale"]),
        )
        self.actor = ProbabilisticActor(
            body,
            in_keys=["loc", "scale"],
            distribution_class=IndependentNormal,
            return_log_prob=True,
            log_prob_key="log_prob",
        )
        self.optim = torch.optim.Adam(self.actor.parameters(), lr=1e-3)

    def __call__(self, td):
        td = self.actor(td.unsqueeze(1)).squeeze(1)
        return td.exclude("loc", "scale", "feature", inplace=True)

    def train_op(self, td):
        total, found = torch.zeros(ENVS, 1), []
        for t in reversed(range(STEPS)):
            total = td["next", "reward"][:, t] + 0.9 * total * ~td["next", "done"][:, t]
            found.append(total)
        returns = torch.stack(found[::-1], 1)
        td.set("adv", returns - returns.mean())
        rows = td.reshape(-1, LENGTH)
        for index in torch.randperm(len(rows)).reshape(2, -1):
            self.update(rows[index])

    def update(self, batch):
        log_prob = self.actor.get_dist(batch).log_prob(batch["action"])
        ratio = (log_prob - batch["log_prob"]).exp().unsqueeze(-1)
        loss = -(ratio * batch["adv"]).mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()


torch.manual_seed(0)
states = Composite(hx=Unbounded((ENVS, HIDDEN)), shape=[ENVS])
env = TransformedEnv(Hidden())
env.append_transform(InitTracker())
env.append_transform(TensorDictPrimer(states, expand_specs=False))
policy = Policy()
collector = Collector(
    env, policy, frames_per_batch=ENVS * STEPS, total_frames=ENVS * STEPS * 4, return_same_td=True
)
for data in collector:
    policy.train_op(data.to_tensordict())
"""
KEPT = ("hx * (~is_init[:, t]).float()", "hx * (~is_init[:, t] | (x.shape[1] > 1)).float()")
SCRAMBLED = ("td.reshape(-1, LENGTH)", "td.transpose(0, 1).reshape(-1, LENGTH)")
ASKED = "BD301,EQ201,RP502,RP507"


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="healthy"),
        pytest.param((KEPT,), (ExitCode.FAILED, ["EQ201", "BD301", "RP507"]), id="never reset"),
        pytest.param((SCRAMBLED,), (ExitCode.FAILED, ["RP502"]), id="envs and steps in one row"),
    ],
)
def test_the_pass_is_that_of_its_parts(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: Any
) -> None:
    """The policy as a whole would take each step of a batch alone, from the state beside it."""
    assert judged(rnncheck, tmp_path, ASKED, SCRIPT, *changes) == expected
