"""``rnncheck run``: policies that are functions or objects, and no modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, run

SCRIPT = """
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import Compose, GymEnv, InitTracker, TransformedEnv
from torchrl.modules import GRUModule, QValueModule

torch.manual_seed(0)
env = TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), InitTracker())
env.set_seed(0)
gru = GRUModule(4, 16, in_key="observation", out_key="feat")
env.append_transform(gru.make_tensordict_primer())
network = TensorDictSequential(
    gru,
    TensorDictModule(nn.Linear(16, 2), ["feat"], ["action_value"]),
    QValueModule(spec=env.action_spec),
)


class Agent:
    def __init__(self, network):
        self.network = network

    def __call__(self, td):
        return self.network(td)


def act(td):
    return network(td)


"""
FORGETS = ("    return network(td)", "    td['recurrent_state'] *= 0\n    return network(td)")
ROLLOUT = "env.rollout(48, act, break_when_any_done=False)\n"
COLLECTOR = "print(next(iter(Collector(env, Agent(network), frames_per_batch=48))))\n"


@pytest.mark.parametrize("acts", [ROLLOUT, COLLECTOR], ids=["function", "object"])
def test_what_is_called_is_judged_as_a_policy(rnncheck: Any, tmp_path: Path, acts: str) -> None:
    (tmp_path / "train.py").write_text(SCRIPT + acts)
    ended, told, _ = run(rnncheck, "--select", "CL402,WR103", tmp_path / "train.py")
    assert (ended, failed(told)) == (ExitCode.VERIFIED, [])


def test_one_that_forgets_its_state_is_blamed(rnncheck: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace(*FORGETS) + ROLLOUT)
    ended, told, _ = run(rnncheck, "--select", "CL402", tmp_path / "train.py")
    assert (ended, failed(told)) == (ExitCode.FAILED, ["CL402"])
