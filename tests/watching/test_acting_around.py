"""``rnncheck run``: a loop over ``env.step`` whose action is made by a function around the network,
which writes values alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, judged, run, written

SCRIPT = """
import copy

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TensorDictPrimer
from torchrl.envs import TransformedEnv

ENVS, STEPS, HIDDEN = 5, 9, 16
torch.manual_seed(0)


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, HIDDEN)

    def forward(self, x, h, start):
        if x.ndim == 2:
            h = self.cell(x, h * ~start)
            return h, h
        found, h = [], h[:, 0]
        for x_t, start_t in zip(x.unbind(1), start.unbind(1)):
            h = self.cell(x_t, h * ~start_t)
            found.append(h)
        return torch.stack(found, 1), torch.stack(found, 1)


class Agent:
    def __init__(self):
        self.network = TensorDictSequential(
            TensorDictModule(Memory(), ["observation", "h", "is_init"], ["x", ("next", "h")]),
            TensorDictModule(nn.Linear(HIDDEN, 2), ["x"], ["q"]),
        )
        self.target = copy.deepcopy(self.network)
        self.optim = torch.optim.Adam(self.network.parameters(), 1e-3)

    @torch.no_grad()
    def __call__(self, td):
        best = self.network(td)["q"].argmax(-1)
        drawn = torch.rand(best.shape) < 0.3
        td["action"] = torch.where(drawn, torch.randint_like(best, 2), best)
        return td.exclude("x", "q")

    def update(self, rows):
        full = rows.select("observation", "is_init", "h").clone()
        full["h"] = torch.zeros_like(full["h"])
        q = self.network(full.clone())["q"]
        chosen = q.gather(-1, rows["action"].unsqueeze(-1))[:, :-1]
        with torch.no_grad():
            following = self.target(full.clone())["q"].max(-1, keepdim=True).values[:, 1:]
        over = rows["next", "done"][:, :-1]
        goal = rows["next", "reward"][:, :-1] + 0.97 * ~over * following
        loss = (chosen - goal).square().mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()


def one():
    return GymEnv("CartPole-v1", categorical_action_encoding=True)


primer = TensorDictPrimer(h=Unbounded(shape=(ENVS, HIDDEN)), expand_specs=False)
env = TransformedEnv(SerialEnv(ENVS, one), Compose(InitTracker(), StepCounter(6), primer))
env.set_seed(0)
agent = Agent()
for _ in range(4):
    td, steps = env.reset(), []
    for _ in range(STEPS):
        td = agent(td)
        step, td = env.step_and_maybe_reset(td)
        steps.append(step)
    agent.update(torch.stack(steps, 1).contiguous())
"""
NO_STARTS = (
    "            h = self.cell(x_t, h * ~start_t)\n",
    "            h = self.cell(x_t, h)\n",
)
CODES = "WR,EQ,BD3,CL4,RP5,LS701,GR8"


@pytest.mark.slow
def test_its_networks_are_judged(rnncheck: Any, tmp_path: Path) -> None:
    code, told, _ = run(rnncheck, "--select", CODES, written(tmp_path, SCRIPT))
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(("change", "code"), [(NO_STARTS, "BD301")])
def test_a_fault_of_theirs_is_named(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], code: str
) -> None:
    assert judged(rnncheck, tmp_path, code, SCRIPT, change) == (ExitCode.FAILED, [code])
