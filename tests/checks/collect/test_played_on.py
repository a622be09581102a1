"""Loops that step all envs until the last has ended: what lies behind an end is padding."""

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
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.envs.utils import step_mdp
from torchrl.modules import GRUModule, ProbabilisticActor, set_recurrent_mode


def memory():
    return GRUModule(input_size=4, hidden_size=12, in_key="observation", out_key="seen")


def make_env():
    make = lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)
    parts = (InitTracker(), StepCounter(max_steps=30), memory().make_tensordict_primer())
    return TransformedEnv(SerialEnv(4, make), Compose(*parts))


def make_policy():
    head = TensorDictModule(nn.Linear(12, 2), ["seen"], ["logits"])
    body = TensorDictSequential(memory(), head)
    kind = torch.distributions.Categorical
    return ProbabilisticActor(body, in_keys=["logits"], distribution_class=kind)


def make_collector(create_env_fn, policy, resets=False, filler=0, batches=2, **kw):
    env = create_env_fn()

    def rollout():
        now, over, steps = env.reset(), torch.zeros(4, 1, dtype=torch.bool), []
        while not over.all() and len(steps) < 40:
            now["mask"] = ~over
            now = policy(now)
            if resets:
                now, after = env.step_and_maybe_reset(now)
                now["is_init"] = torch.zeros_like(now["is_init"])
            else:
                now = env.step(now)
                after = step_mdp(now, exclude_action=True, exclude_reward=True)
            steps.append(now)
            over = over | now["next", "done"]
            now = after
        rows = torch.stack(steps, 1).contiguous()
        for key in ("done", "terminated", "truncated") if not resets else ():
            rows["next", key] = rows["next", key] & rows["mask"]
        if filler:
            zeros = rows[:, :1].apply(torch.zeros_like).expand(4, filler)
            rows = torch.cat([rows, zeros], 1)
        return rows

    def loop():
        for _ in range(batches):
            with torch.no_grad():
                yield rollout()

    return loop()


class Reinforce(nn.Module):
    def __init__(self, policy, masked):
        super().__init__()
        self.policy, self.masked = policy, masked

    def forward(self, td):
        with set_recurrent_mode(True):
            dist = self.policy.get_dist(td.copy())
        mask = td["mask"].squeeze(-1)
        gain = (td["next", "reward"] * td["mask"]).sum(1)
        chosen = dist.log_prob(td["action"]) * gain
        return {"loss": -(chosen[mask] if self.masked else chosen).mean()}


def make_loss(policy, masked=True):
    return Reinforce(policy, masked)
"""
STAGES = """
env: {factory: "until:make_env"}
policy: {factory: "until:make_policy"}
collect: {factory: "until:make_collector"}
loss: {factory: "until:make_loss"}
"""
FAMILIES = ("BD307", "CL4", "RP505", "VL603")


@pytest.fixture
def until(tmp_path: Path) -> Path:
    return written(tmp_path, "until", PIPELINE, STAGES)


@pytest.mark.parametrize("filler", [0, 5])
def test_steps_behind_an_end_are_padding_where_a_mask_says_so(until: Path, filler: int) -> None:
    run = verified(until, FAMILIES, f"collect.filler={filler}")
    assert failed(run) == set()
    assert result(run, "CL405").outcome is Outcome.PASSED
    assert result(run, "RP505").outcome is Outcome.PASSED


def test_a_loss_that_reads_them_is_told(until: Path) -> None:
    assert failed(verified(until, FAMILIES, "loss.masked=false")) == {"RP505"}


def test_behind_a_reset_the_same_entry_is_no_mask(until: Path) -> None:
    assert "CL405" in failed(verified(until, ("CL405",), "collect.resets=true"))
