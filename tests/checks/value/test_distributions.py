"""VL603: a target that is a distribution over fixed returns, which moves a loss very little."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.results.model import Outcome
from tests.checks.verified import failed, result, verified
from tests.checks.written import written

PIPELINE = """
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, TransformedEnv
from torchrl.modules import GRUModule, QValueModule, set_recurrent_mode

ATOMS, LEAST, MOST = 21, -5.0, 25.0
z = torch.linspace(LEAST, MOST, ATOMS)


def memory():
    return GRUModule(input_size=4, hidden_size=12, in_key="observation", out_key="seen")


def make_env():
    make = lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)
    parts = Compose(InitTracker(), memory().make_tensordict_primer())
    return TransformedEnv(SerialEnv(3, make), parts)


def make_policy():
    head = nn.Sequential(nn.Linear(12, 2 * ATOMS), nn.Unflatten(-1, (2, ATOMS)))
    worth = TensorDictModule(lambda x: (x.softmax(-1) * z).sum(-1), ["atoms"], ["action_value"])
    parts = memory(), TensorDictModule(head, ["seen"], ["atoms"]), worth
    return TensorDictSequential(*parts, QValueModule(action_space="categorical"))


def projected(p, reward, going):
    at = (reward + 0.9 * going * z).clamp(LEAST, MOST)
    place = (at - LEAST) / (MOST - LEAST) * (ATOMS - 1)
    near = 1 - (place.unsqueeze(-1) - torch.arange(ATOMS)).abs()
    return (near.clamp_min(0) * p.unsqueeze(-1)).sum(-2)


class Categorical(nn.Module):
    def __init__(self, policy, ends):
        super().__init__()
        self.policy, self.ends = policy, ends

    def forward(self, td):
        keys = "observation", "recurrent_state", "is_init"
        with set_recurrent_mode(True):
            here = self.policy(td.select(*keys))["atoms"].log_softmax(-1)
        after = td["next"].select("observation", "recurrent_state")
        after["is_init"] = torch.zeros_like(td["is_init"])
        with torch.no_grad(), set_recurrent_mode(False):
            following = self.policy(after)
        best = following["action_value"].argmax(-1)[..., None, None].expand(*td.shape, 1, ATOMS)
        p = following["atoms"].softmax(-1).gather(-2, best).squeeze(-2)
        over = td["next", "terminated"].float()
        target = projected(p, td["next", "reward"], 1 - over if self.ends else 1.0)
        chosen = td["action"][..., None, None].expand(*td.shape, 1, ATOMS)
        return {"loss": -(target * here.gather(-2, chosen).squeeze(-2)).sum(-1).mean()}


def make_loss(policy, ends=True):
    return Categorical(policy, ends)
"""
STAGES = """
env: {factory: "atoms:make_env"}
policy: {factory: "atoms:make_policy"}
collect: {use: Collector, frames_per_batch: 96, batches: 2}
loss: {factory: "atoms:make_loss"}
"""


@pytest.fixture
def atoms(tmp_path: Path) -> Path:
    return written(tmp_path, "atoms", PIPELINE, STAGES)


def test_one_that_goes_on_behind_an_end_is_found(atoms: Path) -> None:
    run = verified(atoms, ("VL603",), "loss.ends=false")
    assert failed(run) == {"VL603"}
    assert "terminated" in result(run, "VL603").findings[0].message


def test_one_that_ends_there_is_right(atoms: Path) -> None:
    told = result(verified(atoms, ("VL603",)), "VL603")
    assert (told.outcome, told.compared > 0) == (Outcome.PASSED, True)
