"""``rnncheck run``: an actor and a critic that act one after the other and write one name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, run, written

SCRIPT = """\
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.envs import Compose, GymEnv, InitTracker, StepCounter, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor
from torchrl.objectives import A2CLoss
from torchrl.objectives.value import VTrace

torch.manual_seed(0)


def parts(out, key, state):
    names = dict(in_keys=["observation", state, "is_init"], out_keys=["seen", ("next", state)])
    acts = GRUModule(input_size=4, hidden_size=12, **names)
    trains = GRUModule(gru=acts.gru, default_recurrent_mode=True, **names)
    head = TensorDictModule(torch.nn.Linear(12, out), in_keys=["seen"], out_keys=[key])
    return acts, TensorDictSequential(acts, head), TensorDictSequential(trains, head)


def actor_of(net):
    return ProbabilisticActor(
        net,
        in_keys=["logits"],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )


actor_gru, acting, training = parts(2, "logits", "actor_state")
critic_gru, judging, judge = parts(1, "state_value", "critic_state")
actor, critic = actor_of(training), judge
primers = [one.make_tensordict_primer() for one in (actor_gru, critic_gru)]
env = TransformedEnv(
    GymEnv("CartPole-v1", categorical_action_encoding=True),
    Compose(InitTracker(), StepCounter(max_steps=13), *primers),
)
collector = Collector(
    env,
    TensorDictSequential(actor_of(acting), judging),
    frames_per_batch=64,
    total_frames=64 * 12,
)
estimator = VTrace(gamma=0.98, value_network=critic, actor_network=actor, shifted=True)
loss = A2CLoss(actor, critic)
optim = torch.optim.Adam(loss.parameters(), lr=1e-3)
for data in collector:
    rows = data.reshape(2, 32).exclude("logits", "seen", "state_value", "collector")
    with torch.no_grad():
        rows = estimator(rows)
    found = loss(rows)
    (found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]).backward()
    optim.step()
    optim.zero_grad()
    collector.update_policy_weights_()
"""
WHOLE = "    with torch.no_grad():\n"
ZEROED = (WHOLE, f'    rows["critic_state"] = torch.zeros_like(rows["critic_state"])\n{WHOLE}')


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), [], id="none", marks=pytest.mark.slow),
        pytest.param((ZEROED,), ["VL604"], id="the critic begins with zeros"),
    ],
)
def test_the_pass_of_each_is_held_against_its_own(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: list[str]
) -> None:
    code, found, _ = run(rnncheck, "--select", "VL", written(tmp_path, SCRIPT, *changes))
    assert (failed(found), code) == (expected, ExitCode.FAILED if expected else ExitCode.VERIFIED)
