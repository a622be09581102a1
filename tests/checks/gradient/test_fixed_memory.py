"""Memories without parameters: a reservoir has no gradient by design."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.results.model import Outcome
from tests.checks.verified import failed, result, verified
from tests.checks.written import written

CODES = ("BD303", "GR801", "GR803", "GR805")
PIPELINE = """
import torch
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import nn
from torchrl.data import Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, StepCounter, TensorDictPrimer
from torchrl.envs import TransformedEnv
from torchrl.modules import QValueModule
from torchrl.modules.tensordict_module.rnn import recurrent_mode, set_recurrent_mode

SIZE = 12


class Reservoir(TensorDictModuleBase):
    in_keys = ["observation", "echo", "is_init"]
    out_keys = ["seen", ("next", "echo")]

    def __init__(self, trained):
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.read = self._weights(4, draw, trained)
        self.turn = self._weights(SIZE, draw, trained)

    def _weights(self, rows, draw, trained):
        made = 0.4 * torch.randn(rows, SIZE, generator=draw)
        return nn.Parameter(made) if trained else made

    @torch.no_grad()
    def forward(self, td):
        x, h, starts = td["observation"], td["echo"], td["is_init"]
        if not recurrent_mode():
            h = torch.tanh(x @ self.read + h.masked_fill(starts, 0.0) @ self.turn)
        else:
            steps = [h[..., 0, :]]
            for t in range(x.shape[-2]):
                begins = starts[..., t, :] if t else torch.ones_like(starts[..., t, :])
                last = torch.where(begins, h[..., t, :], steps[-1])
                steps.append(torch.tanh(x[..., t, :] @ self.read + last @ self.turn))
            h = torch.stack(steps[1:], -2)
        td["seen"] = torch.cat([h, x], -1)
        td["next", "echo"] = h
        return td


def make_env():
    state = TensorDictPrimer({"echo": Unbounded(shape=(SIZE,))}, expand_specs=True)
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    return TransformedEnv(env, Compose(InitTracker(), StepCounter(max_steps=14), state))


def make_policy(env, trained=False):
    head = TensorDictModule(nn.Linear(SIZE + 4, 2), ["seen"], ["action_value"])
    values = QValueModule(action_space="categorical")
    return TensorDictSequential(Reservoir(trained), head, values)


class Fit(nn.Module):
    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def forward(self, td):
        with set_recurrent_mode(True):
            out = self.policy(td.copy())
        error = out["chosen_action_value"] - td["next", "reward"]
        return {"loss": error.square().mean()}


def make_loss(policy):
    return Fit(policy)


def make_batch(data):
    return data.reshape(4, -1)
"""
STAGES = """
env: {factory: "reservoir:make_env"}
policy: {factory: "reservoir:make_policy"}
collect: {use: Collector, frames_per_batch: 96, batches: 2}
batch: {factory: "reservoir:make_batch"}
loss: {factory: "reservoir:make_loss"}
"""


@pytest.fixture
def reservoir(tmp_path: Path) -> Path:
    return written(tmp_path, "reservoir", PIPELINE, STAGES)


def test_nothing_in_it_is_to_be_trained(reservoir: Path) -> None:
    run = verified(reservoir, CODES)
    assert failed(run) == set()
    assert {result(run, code).outcome for code in CODES} == {Outcome.NOT_APPLICABLE}
    assert "has no parameters" in result(run, "GR803").reason


def test_parameters_without_a_graph_are_told(reservoir: Path) -> None:
    run = verified(reservoir, CODES, "policy.trained=true")
    assert "GR803" in failed(run)
    assert result(run, "BD303").outcome is Outcome.NOT_LOOKED
