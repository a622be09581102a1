"""``rnncheck run``: a loop that steps all of its envs until the last has ended, with a mask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, run, written

SCRIPT = """
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.envs.utils import step_mdp
from torchrl.modules import GRUModule, ProbabilisticActor, set_recurrent_mode

ROWS = 4


def rollout(env, policy):
    now, over, steps = env.reset(), torch.zeros(ROWS, 1, dtype=torch.bool), []
    while not over.all():
        now["mask"] = ~over
        now = env.step(policy(now))
        steps.append(now)
        over = over | now["next", "done"]
        now = step_mdp(now, exclude_action=True, exclude_reward=True)
    return torch.stack(steps, 1).contiguous()


def loss_of(batch, policy):
    with set_recurrent_mode(True):
        dist = policy.get_dist(batch.copy())
    mask = batch["mask"].squeeze(-1)
    chosen = dist.log_prob(batch["action"]) * (batch["next", "reward"] * batch["mask"]).sum(1)
    return batch, -chosen[mask].mean()


def main():
    torch.manual_seed(0)
    gru = GRUModule(input_size=4, hidden_size=12, in_key="observation", out_key="seen")
    make = lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)
    parts = (InitTracker(), StepCounter(max_steps=30), gru.make_tensordict_primer())
    env = TransformedEnv(SerialEnv(ROWS, make), Compose(*parts))
    env.set_seed(0)
    head = TensorDictModule(nn.Linear(12, 2), ["seen"], ["logits"])
    policy = ProbabilisticActor(
        TensorDictSequential(gru, head),
        in_keys=["logits"],
        distribution_class=torch.distributions.Categorical,
        default_interaction_type="random",
    )
    optim = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(8):
        with torch.no_grad():
            batch = rollout(env, policy)
        _, loss = loss_of(batch, policy)
        optim.zero_grad()
        loss.backward()
        optim.step()


if __name__ == "__main__":
    main()
"""
ASKED = ("--select", "BD307", "--select", "CL", "--select", "RP505", "--select", "VL603")


def test_what_lies_behind_an_end_is_padding(rnncheck: Any, tmp_path: Path) -> None:
    ended, found, _ = run(rnncheck, *ASKED, written(tmp_path, SCRIPT))
    assert (ended, failed(found)) == (ExitCode.VERIFIED, [])


def test_a_loss_of_that_is_told(rnncheck: Any, tmp_path: Path) -> None:
    path = written(tmp_path, SCRIPT, ("chosen[mask].mean()", "chosen.mean()"))
    ended, found, _ = run(rnncheck, *ASKED, path)
    assert (ended, failed(found)) == (ExitCode.FAILED, ["RP505"])
