"""A world model that is trained by what is observed next: it is asked by that, not by what its
policy observes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.results.model import Outcome
from tests.checks.verified import failed, result, verified
from tests.checks.written import written

PIPELINE = """
import torch
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.data import Unbounded
from torchrl.envs import (
    Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TensorDictPrimer, TransformedEnv
)


def make_env():
    primer = TensorDictPrimer(belief=Unbounded((2, 12)), default_value=0.0, expand_specs=False)
    parts = Compose(InitTracker(), StepCounter(max_steps=15), primer)
    return TransformedEnv(SerialEnv(2, lambda: GymEnv("Pendulum-v1")), parts)


class Advance(TensorDictModuleBase):
    def __init__(self, noisy):
        super().__init__()
        self.in_keys, self.out_keys = ["belief", "state", "action"], [("next", "belief")]
        self.cell, self.noisy = nn.GRUCell(7, 12), noisy

    def after(self, belief, state, action):
        given = torch.cat([state, action], -1)
        lead = belief.shape[:-1]
        found = self.cell(given.reshape(-1, 7), belief.reshape(-1, 12)).reshape(*lead, 12)
        return found + self.noisy * torch.randn_like(found) if self.noisy else found

    def forward(self, td):
        return td.set(("next", "belief"), self.after(td["belief"], td["state"], td["action"]))


class Choose(TensorDictModuleBase):
    def __init__(self):
        super().__init__()
        self.in_keys, self.out_keys = ["belief", "observation"], ["state", "action"]
        self.post, self.head = nn.Linear(12 + 3, 6), nn.Linear(12 + 6, 1)

    def seen(self, belief, observation):
        return torch.tanh(self.post(torch.cat([belief, observation], -1)))

    def forward(self, td):
        state = self.seen(td["belief"], td["observation"])
        mean = self.head(torch.cat([td["belief"], state], -1))
        action = (mean + 0.3 * torch.randn_like(mean)).clamp(-2, 2)
        return td.set("state", state).set("action", action)


class Agent(TensorDictModuleBase):
    def __init__(self, noisy):
        super().__init__()
        self.choose, self.advance = Choose(), Advance(noisy)
        self.in_keys = ["belief", "observation"]
        self.out_keys = ["state", "action", ("next", "belief")]

    def forward(self, td):
        return self.advance(self.choose(td))


def make_policy(noisy=0.0):
    return Agent(noisy)


class Model(nn.Module):
    def __init__(self, agent, carries, joint):
        super().__init__()
        self.agent, self.carries, self.joint = agent, carries, joint
        self.value = nn.Linear(3, 1)
        self.decode, self.pay = nn.Linear(12 + 6, 3), nn.Linear(12 + 6, 1)

    def forward(self, td):
        begins, rows = td["is_init"].squeeze(-1), []
        belief, state = td["belief"][:, 0], td["state"][:, 0]
        for t in range(td.shape[1]):
            anew = begins[:, t, None] | (not self.carries)
            belief = torch.where(anew, td["belief"][:, t], belief)
            state = torch.where(anew, td["state"][:, t], state)
            belief = self.agent.advance.after(belief, state, td["action"][:, t])
            state = self.agent.choose.seen(belief, td["next", "observation"][:, t])
            rows.append(torch.cat([belief, state], -1))
        rows = torch.stack(rows, 1)
        shown = (self.decode(rows) - td["next", "observation"]).square().mean()
        loss = shown + 0.01 * (self.pay(rows) - td["next", "reward"]).square().mean()
        if self.joint:
            after = self.value(td["next", "observation"]).detach()
            target = td["next", "reward"] + 0.9 * (~td["next", "terminated"]).float() * after
            loss = loss + (self.value(td["observation"]) - target).square().mean()
        return {"loss": loss}


def make_loss(policy, carries=True, joint=False):
    return Model(policy, carries, joint)
"""
STAGES = """
env: {factory: "unrolled:make_env"}
policy: {factory: "unrolled:make_policy"}
collect: {use: Collector, frames_per_batch: 80, batches: 2}
loss: {factory: "unrolled:make_loss"}
"""


@pytest.fixture
def unrolled(tmp_path: Path) -> Path:
    return written(tmp_path, "unrolled", PIPELINE, STAGES)


def test_what_is_observed_next_reaches_later_steps(unrolled: Path) -> None:
    found = result(verified(unrolled, ("LS703",)), "LS703")
    assert (found.outcome, found.compared > 0) == (Outcome.PASSED, True)


def test_a_step_that_begins_with_what_is_stored_remembers_nothing(unrolled: Path) -> None:
    assert failed(verified(unrolled, ("LS703",), "loss.carries=false")) == {"LS703"}


def test_a_model_of_rewards_alone_has_no_next_value(unrolled: Path) -> None:
    found = result(verified(unrolled, ("VL604",)), "VL604")
    assert found.outcome is Outcome.NOT_APPLICABLE
    assert "predicts rewards" in found.reason


@pytest.mark.slow
def test_a_model_with_a_target_beside_it_is_not_let_off(unrolled: Path) -> None:
    found = result(verified(unrolled, ("VL604",), "loss.joint=true"), "VL604")
    assert found.outcome is not Outcome.NOT_APPLICABLE


def test_a_recurrence_on_drawn_actions_has_a_precision(unrolled: Path) -> None:
    run = verified(unrolled, ("PR901", "PR902"))
    assert [result(run, code).outcome for code in ("PR901", "PR902")] == [Outcome.PASSED] * 2


def test_a_state_that_is_drawn_itself_tells_no_precision(unrolled: Path) -> None:
    found = result(verified(unrolled, ("PR901",), "policy.noisy=0.1"), "PR901")
    assert found.outcome is Outcome.NOT_LOOKED
