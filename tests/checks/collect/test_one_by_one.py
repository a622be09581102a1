"""Agents of one world that end and begin again one by one: their flags stand in their own nest."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.results.model import Outcome
from tests.checks.verified import failed, result, verified
from tests.checks.written import written

PIPELINE = """
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import nn
from torchrl.data import Binary, Categorical, Composite, Unbounded
from torchrl.envs import Compose, EnvBase, InitTracker, TensorDictPrimer, TransformedEnv
from torchrl.modules import ProbabilisticActor
from torchrl.modules.tensordict_module.rnn import recurrent_mode, set_recurrent_mode

AGENTS, SIZE = 3, 8


class World(EnvBase):
    def __init__(self, together):
        super().__init__(batch_size=torch.Size([]))
        self.together, self.rng = together, torch.Generator()
        of_all = dict(shape=(AGENTS,))
        one = Unbounded((AGENTS, 2))
        self.observation_spec = Composite(agents=Composite(observation=one, **of_all))
        self.action_spec = Composite(agents=Composite(action=Categorical(2, **of_all), **of_all))
        self.reward_spec = Composite(agents=Composite(reward=Unbounded((AGENTS, 1)), **of_all))
        flag = lambda: Binary(1, shape=(AGENTS, 1), dtype=torch.bool)
        self.done_spec = Composite(agents=Composite(done=flag(), terminated=flag(), **of_all))
        self.age = torch.zeros(AGENTS)

    def look(self):
        return torch.rand(AGENTS, 2, generator=self.rng)

    def _reset(self, td=None, **kwargs):
        asked = None if td is None else td.get(("agents", "_reset"), None)
        which = torch.ones(AGENTS, dtype=torch.bool) if asked is None else asked.reshape(AGENTS)
        self.age = torch.where(which, 0.0, self.age)
        return TensorDict({"agents": TensorDict({"observation": self.look()}, [AGENTS])}, [])

    def _step(self, td):
        self.age = self.age + 1
        limit = 9 if self.together else 7 + 2 * torch.arange(AGENTS)
        over = (self.age >= limit).unsqueeze(-1)
        own = {"observation": self.look(), "reward": td["agents", "action"].float().unsqueeze(-1)}
        own |= {"done": over, "terminated": over.clone()}
        return TensorDict({"agents": TensorDict(own, [AGENTS])}, [])

    def _set_seed(self, seed):
        self.rng.manual_seed(seed or 0)


class Cell(TensorDictModuleBase):
    in_keys = [("agents", "observation"), ("agents", "h"), ("agents", "is_init")]
    out_keys = [("agents", "seen"), ("next", "agents", "h")]

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2, SIZE)

    def step(self, x, h, begins):
        h = torch.where(begins, 0.0, h)
        return self.cell(x.reshape(-1, 2), h.reshape(-1, SIZE)).reshape(h.shape)

    def forward(self, td):
        x, h, begins = (td[key] for key in self.in_keys)
        if not recurrent_mode():
            h = self.step(x, h, begins)
        else:
            states = [h[..., 0, :, :]]
            for t in range(x.shape[-3]):
                states.append(self.step(x[..., t, :, :], states[-1], begins[..., t, :, :]))
            h = torch.stack(states[1:], -3)
        td["agents", "seen"] = td["next", "agents", "h"] = h
        return td


def make_env(together=False):
    state = Composite(agents=Composite(h=Unbounded((AGENTS, SIZE)), shape=(AGENTS,)))
    primer = TensorDictPrimer(state, reset_key=("agents", "_reset"))
    return TransformedEnv(World(together), Compose(InitTracker(), primer))


def make_policy(env):
    head = TensorDictModule(nn.Linear(SIZE, 2), [("agents", "seen")], [("agents", "logits")])
    return ProbabilisticActor(
        TensorDictSequential(Cell(), head),
        in_keys={"logits": ("agents", "logits")},
        out_keys=[("agents", "action")],
        distribution_class=torch.distributions.Categorical,
    )


class Fit(nn.Module):
    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def forward(self, td):
        with set_recurrent_mode(True):
            dist = self.policy.get_dist(td.copy())
        gain = td["next", "agents", "reward"].squeeze(-1)
        return {"loss": -(dist.log_prob(td["agents", "action"]) * gain).mean()}


def make_loss(policy):
    return Fit(policy)
"""
STAGES = """
env: {factory: "world:make_env"}
policy: {factory: "world:make_policy"}
collect: {use: Collector, frames_per_batch: 60, batches: 2}
loss: {factory: "world:make_loss"}
"""
FAMILIES = ("BD3", "CL402", "CL406", "EQ201", "LS701")


@pytest.fixture
def world(tmp_path: Path) -> Path:
    return written(tmp_path, "world", PIPELINE, STAGES)


def test_one_agents_start_is_not_that_of_the_others(world: Path) -> None:
    run = verified(world, FAMILIES)
    assert failed(run) == set()
    assert result(run, "CL402").outcome is Outcome.PASSED
    assert "one by one" in result(run, "LS701").reason


def test_where_all_begin_together_their_segments_are_isolated(world: Path) -> None:
    run = verified(world, FAMILIES, "env.together=true")
    assert failed(run) == set()
    assert result(run, "LS701").outcome is Outcome.PASSED
