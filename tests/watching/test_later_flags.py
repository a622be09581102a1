"""``rnncheck run``: start flags that go missing ahead of training, where no episode begins inside
of the first rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

SCRIPT = """
import torch
from tensordict.nn import TensorDictModule as Mod, TensorDictSequential as Seq
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import (
    GRUModule, NormalParamExtractor, ProbabilisticActor, TanhNormal, set_recurrent_mode,
)
from torchrl.modules.utils import get_primers_from_module
from torchrl.objectives import A2CLoss
from torchrl.objectives.value import GAE

ENVS, STEPS, WIDTH = 3, 16, 16


def prepared(data):
    return data


def main():
    torch.manual_seed(0)
    seen = Mod(nn.Sequential(nn.Linear(3, WIDTH), nn.Tanh()), ["observation"], ["seen"])
    gru = GRUModule(input_size=WIDTH, hidden_size=WIDTH, in_keys=["seen", "h"],
                    out_keys=["core", ("next", "h")])

    def make_env():
        env = TransformedEnv(GymEnv("Pendulum-v1"), Compose(InitTracker(), StepCounter(40)))
        env.append_transform(get_primers_from_module(gru))
        return env

    env = SerialEnv(ENVS, make_env)
    head = nn.Sequential(nn.Linear(WIDTH, 2), NormalParamExtractor())
    actor = ProbabilisticActor(
        Seq(seen, gru, Mod(head, ["core"], ["loc", "scale"])), in_keys=["loc", "scale"],
        distribution_class=TanhNormal, distribution_kwargs={"low": -2.0, "high": 2.0},
        spec=env.action_spec, return_log_prob=True)
    critic = Seq(seen, gru, Mod(nn.Linear(WIDTH, 1), ["core"], ["state_value"]))
    gae = GAE(gamma=0.97, lmbda=0.9, value_network=critic, shifted=True)
    loss = A2CLoss(actor, critic)
    optim = torch.optim.Adam(loss.parameters(), 1e-3)
    collector = Collector(env, actor, frames_per_batch=ENVS * STEPS,
                          total_frames=10 * ENVS * STEPS)
    for data in collector:
        data = prepared(data)
        with set_recurrent_mode(True):
            with torch.no_grad():
                gae(data)
            losses = loss(data)
        total = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
        optim.zero_grad()
        total.backward()
        optim.step()


if __name__ == "__main__":
    main()
"""
ALL_FALSE = 'return data.set("is_init", torch.zeros_like(data["is_init"]))'
MADE_OF_ENDS = """ends = data["next", "done"]
    starts = torch.cat([torch.zeros_like(ends[:, :1]), ends[:, :-1]], 1)
    return data.set("is_init", starts)"""


def with_flags(lines: str) -> tuple[str, str]:
    return "def prepared(data):\n    return data", f"def prepared(data):\n    {lines}"


def test_flags_that_a_function_clears_are_named(rnncheck: Any, tmp_path: Path) -> None:
    given = judged(rnncheck, tmp_path, "RP503", SCRIPT, with_flags(ALL_FALSE))
    assert given == (ExitCode.FAILED, ["RP503"])


@pytest.mark.parametrize("lines", ["return data", MADE_OF_ENDS])
def test_flags_inside_of_rows_are_left_alone(rnncheck: Any, tmp_path: Path, lines: str) -> None:
    """Those at the rows' starts say nothing: zeros stand there."""
    given = judged(rnncheck, tmp_path, "RP503", SCRIPT, with_flags(lines))
    assert given == (ExitCode.VERIFIED, [])
