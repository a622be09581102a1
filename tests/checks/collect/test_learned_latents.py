"""CL406: latents that training draws anew on purpose, and noise that it cannot draw again."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.results.model import Outcome, Severity
from tests.checks.verified import result, verified
from tests.checks.written import written

PIPELINE = """
import torch
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import nn
from torch.distributions import Independent, Normal, OneHotCategoricalStraightThrough
from torchrl.data import Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, StepCounter, TensorDictPrimer
from torchrl.envs import TransformedEnv
from torchrl.envs.utils import ExplorationType, exploration_type
from torchrl.modules import ProbabilisticActor
from torchrl.modules.tensordict_module.rnn import recurrent_mode

SIZE, LATENT = 12, 4


class Latents(TensorDictModuleBase):
    in_keys = ["observation", "belief", "is_init"]
    out_keys = ["seen", ("next", "belief")]

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.post = nn.Linear(4 + SIZE, 2 * LATENT)
        self.cell = nn.GRUCell(4 + LATENT, SIZE)

    def latent(self, x, h):
        loc, scale = self.post(torch.cat([x, h], -1)).chunk(2, -1)
        if self.kind == "one-hot":
            dist = OneHotCategoricalStraightThrough(logits=loc)
        elif self.kind == "normal":
            dist = Independent(Normal(loc, nn.functional.softplus(scale) + 0.1), 1)
        else:
            dist = Normal(loc, 0.1)
        return dist.rsample() if exploration_type() is ExplorationType.RANDOM else loc

    def step(self, x, h, begins):
        h = torch.where(begins, 0.0, h)
        both = torch.cat([x, self.latent(x, h)], -1)
        return self.cell(both.reshape(-1, 4 + LATENT), h.reshape(-1, SIZE)).reshape(h.shape)

    def forward(self, td):
        x, h, begins = (td[key] for key in self.in_keys)
        if not recurrent_mode():
            h = self.step(x, h, begins)
        else:
            states = [h[..., 0, :]]
            for t in range(x.shape[-2]):
                states.append(self.step(x[..., t, :], states[-1], begins[..., t, :]))
            h = torch.stack(states[1:], -2)
        td["seen"] = td["next", "belief"] = h
        return td


def make_env():
    state = TensorDictPrimer({"belief": Unbounded((SIZE,))}, expand_specs=True)
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    return TransformedEnv(env, Compose(InitTracker(), StepCounter(max_steps=20), state))


def make_policy(kind="normal"):
    head = TensorDictModule(nn.Linear(SIZE, 2), ["seen"], ["logits"])
    body = TensorDictSequential(Latents(kind), head)
    actions = torch.distributions.Categorical
    return ProbabilisticActor(
        body, in_keys=["logits"], distribution_class=actions, default_interaction_type="random"
    )
"""
STAGES = """
env: {factory: "latents:make_env"}
policy: {factory: "latents:make_policy"}
collect: {use: Collector, frames_per_batch: 60, batches: 2}
"""


@pytest.fixture
def latents(tmp_path: Path) -> Path:
    return written(tmp_path, "latents", PIPELINE, STAGES)


@pytest.mark.parametrize("kind", ["normal", "one-hot"])
def test_latents_of_a_trained_distribution_are_a_warning(latents: Path, kind: str) -> None:
    found = result(verified(latents, ("CL406",), f"policy.kind={kind}"), "CL406")
    assert (found.outcome, found.severity) == (Outcome.FAILED, Severity.WARNING)
    assert "on purpose" in found.findings[0].fix


def test_noise_of_a_fixed_size_is_an_error(latents: Path) -> None:
    found = result(verified(latents, ("CL406",), "policy.kind=noise"), "CL406")
    assert (found.outcome, found.severity) == (Outcome.FAILED, Severity.ERROR)
