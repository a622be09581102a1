"""How a script ends, and what is said of its training: never "not checked" where it set out to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import planted, run

ACTS = """
import os
import sys
import torch
from tensordict.nn import TensorDictModule as Mod, TensorDictSequential as Seq
from torch.distributions import Categorical
from torchrl.envs import Compose, GymEnv, InitTracker, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor, set_recurrent_mode
from torchrl.objectives.value import GAE

torch.manual_seed(0)
memory = GRUModule(input_size=4, hidden_size=8, in_key="observation", out_key="features")
net = Seq(memory, Mod(torch.nn.Linear(8, 2), in_keys=["features"], out_keys=["logits"]))
value = Seq(memory, Mod(torch.nn.Linear(8, 1), in_keys=["features"], out_keys=["state_value"]))
actor = ProbabilisticActor(net, in_keys=["logits"], distribution_class=Categorical)
gym = GymEnv("CartPole-v1", categorical_action_encoding=True)
env = TransformedEnv(gym, Compose(InitTracker(), memory.make_tensordict_primer()))
with torch.no_grad():
    batch = env.rollout(24, actor, break_when_any_done=False).unsqueeze(0)
"""
TRAINS = """
optim = torch.optim.SGD(net.parameters(), 0.1)
def loss_of(batch):
    with set_recurrent_mode(True):
        chosen = actor.get_dist(batch.exclude("next")).log_prob(batch["action"])
    {}
    return -(chosen * batch["next", "reward"].squeeze(-1)).mean()
for update in range(2):
    optim.zero_grad()
    loss_of(batch).backward()
    {}
    optim.step()
"""
ESTIMATES = """
with torch.no_grad(), set_recurrent_mode(True):
    GAE(gamma=0.9, lmbda=0.9, value_network=value, shifted=True)(batch)
"""
RAISES = "raise ValueError('no loss')"
# How it ends: the script behind ACTS, the exit code, the outcome of its training, words of it.
ENDINGS = {
    "acts alone": ("", ExitCode.VERIFIED, "passed", "0 optimiser steps seen"),
    "acts and exits": ("sys.exit(0)", ExitCode.VERIFIED, "passed", "0 optimiser steps seen"),
    "exits in its loss": (
        TRAINS.format("sys.exit(0)", ""),
        ExitCode.NOT_SHOWN,
        "could-not-look",
        "the script left by sys.exit() at ",
    ),
    "exits behind backward": (
        TRAINS.format("", "sys.exit()"),
        ExitCode.NOT_SHOWN,
        "could-not-look",
        "1 call of backward, 1 optimiser made, 0 optimiser steps were seen",
    ),
    "makes an optimiser": (
        "torch.optim.Adam(net.parameters())",
        ExitCode.NOT_SHOWN,
        "could-not-look",
        "the script came to its end; 0 calls of backward, 1 optimiser made",
    ),
    "estimates values": (
        ESTIMATES,
        ExitCode.NOT_SHOWN,
        "could-not-look",
        "1 call of GAE, 0 calls of backward",
    ),
    "raises in its loss": (TRAINS.format(RAISES, ""), ExitCode.INTERNAL, "error", "no loss"),
    "comes to its end": (
        TRAINS.format("", ""),
        ExitCode.VERIFIED,
        "passed",
        "2 optimiser steps seen",
    ),
    "ends its process": (
        TRAINS.format("os._exit(0)", ""),
        ExitCode.INTERNAL,
        "error",
        "ended the process, with exit code 0",
    ),
}
CHEAP = ("acts alone", "exits in its loss")


@pytest.mark.parametrize(
    "how", [one if one in CHEAP else pytest.param(one, marks=pytest.mark.slow) for one in ENDINGS]
)
def test_what_an_ending_shows(rnncheck: Any, tmp_path: Path, how: str) -> None:
    behind, code, outcome, words = ENDINGS[how]
    path = tmp_path / "script.py"
    path.write_text(ACTS + behind)
    ended, found, _ = run(rnncheck, "--select", "WR103", "--select", "BD302", path)
    (train,) = [one for one in found["stages"] if one["stage"] == "train"]
    assert (train["outcome"], ended) == (outcome, code), train["detail"]
    assert words in train["detail"]
    told = [one for one in found["notices"] if one.startswith("training is not shown: ")]
    assert len(told) == (outcome == "could-not-look")


@pytest.mark.slow
def test_a_time_limit_before_any_step_shows_no_training(rnncheck: Any, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(ACTS + "while True:\n    pass\n")
    ended, found, _ = run(rnncheck, "--select", "WR103", "--seconds", "25", path)
    assert ended == ExitCode.NOT_SHOWN
    (train,) = [one for one in found["stages"] if one["stage"] == "train"]
    assert "ended by the time limit" in train["detail"]


# Once the script has taken two of its steps, as the checks find it.
SLOW = """def forward(self, x, h):
        if TAKEN:
            __import__("time").sleep(0.1)
"""
TAKEN = (
    "        optim.step()\n",
    "        optim.step()\n        TAKEN.append(update) if update else None\n",
)


@pytest.mark.slow
def test_what_is_judged_has_as_long_as_is_said(rnncheck: Any, tmp_path: Path) -> None:
    named = ("STEPS, HIDDEN, GAMMA = 64", "TAKEN = []\nSTEPS, HIDDEN, GAMMA = 12")
    changes = (named, ("def forward(self, x, h):\n", SLOW), TAKEN)
    slow = planted(tmp_path, "plain_single.py", *changes)
    code, _, done = run(rnncheck, "--select", "EQ201", "--timeout", "1", slow)
    assert code in (ExitCode.INTERNAL, ExitCode.NOT_SHOWN)
    assert "did not finish within 1 s" in done.stdout
    assert "`--timeout` of `rnncheck run`" in done.stdout
