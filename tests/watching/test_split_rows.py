"""``rnncheck run``: PPO on trajectories in rows of their own, with advantages made of the rollout
or of these rows, which are cut where the rollout ends and filled up behind that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, run, written

ROLLOUT = """import torch
from tensordict.nn import TensorDictModule as Mod, TensorDictSequential as Seq
from torch import nn
from torchrl.collectors import Collector
from torchrl.collectors.utils import split_trajectories
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor, set_recurrent_mode
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

torch.manual_seed(0)
gru = GRUModule(4, 16, in_keys=["observation", "rs"], out_keys=["mem", ("next", "rs")])
logits = Seq(gru, Mod(nn.Linear(16, 2), ["mem"], ["logits"]))
actor = ProbabilisticActor(
    logits,
    in_keys=["logits"],
    distribution_class=torch.distributions.Categorical,
    return_log_prob=True,
)
critic = Seq(gru, Mod(nn.Linear(16, 1), ["mem"], ["state_value"]))


def make_env():
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    parts = Compose(InitTracker(), StepCounter(30), gru.make_tensordict_primer())
    return TransformedEnv(env, parts)


env = SerialEnv(4, make_env)
env.set_seed(0)
collector = Collector(env, actor, frames_per_batch=256, total_frames=1024)
gae = GAE(gamma=0.98, lmbda=0.9, value_network=critic, deactivate_vmap=True)
loss_module = ClipPPOLoss(actor, critic, reduction="none")
optim = torch.optim.Adam(loss_module.parameters(), lr=1e-3)
for data in collector:
    with torch.no_grad(), set_recurrent_mode(True):
        data = gae(data)
    data = split_trajectories(data, prefix="collector")
    for index in torch.randperm(len(data)).split(6):
        batch = data[index]
        mask = batch["collector", "mask"]
        out = loss_module(batch)
        loss = sum(out[f"loss_{one}"].reshape(mask.shape)[mask].mean() for one in PARTS)
        optim.zero_grad()
        loss.backward()
        optim.step()
""".replace("PARTS", "('objective', 'critic', 'entropy')")
_SPLIT = '    data = split_trajectories(data, prefix="collector")\n'
_ESTIMATED = """    with torch.no_grad(), set_recurrent_mode(True):
        data = gae(data)
"""
OF_ROWS = (_ESTIMATED + _SPLIT, _SPLIT + _ESTIMATED)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param((), "", id="of the rollout"),
        pytest.param((OF_ROWS,), "stands in the padding of their rows", id="of the rows"),
    ],
)
def test_targets_stop_where_the_data_does(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], said: str
) -> None:
    code, told, _ = run(rnncheck, "--select", "RP505", written(tmp_path, ROLLOUT, *changes))
    assert code == (ExitCode.FAILED if said else ExitCode.VERIFIED)
    assert failed(told) == (["RP505"] if said else [])
    messages = [one["message"] for one in told["checks"][0]["findings"]]
    assert all(said in one for one in messages)
