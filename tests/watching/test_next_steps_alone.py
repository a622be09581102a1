"""``rnncheck run``: next values of an own memory that takes each next step by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

# A leaky memory that forgets at start flags, in steps [rows] and in rows [rows, steps] alike.
SCRIPT = """
import torch
from tensordict.nn import TensorDictModule as Mod, TensorDictModuleBase, TensorDictSequential as Seq
from torch import nn
from torchrl.data import Unbounded
from torchrl.envs import (
    Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TensorDictPrimer, TransformedEnv,
)
from torchrl.envs.utils import step_mdp
from torchrl.modules import ProbabilisticActor

WIDTH, GAMMA = 12, 0.97
torch.manual_seed(0)


class Leaky(TensorDictModuleBase):
    in_keys = ["observation", "s", "is_init"]
    out_keys = ["y", ("next", "s")]

    def __init__(self):
        super().__init__()
        self.into, self.keep = nn.Linear(4, WIDTH), nn.Parameter(torch.linspace(-1.0, 3.0, WIDTH))

    def forward(self, td):
        x, s, start = self.into(td["observation"]), td["s"], (~td["is_init"]).float()
        kept = self.keep.sigmoid()
        if x.ndim == 2:
            new = kept * s * start + x
        else:
            new, now = [], s[:, 0]
            for t in range(x.shape[1]):
                now = kept * now * start[:, t] + x[:, t]
                new.append(now)
            new = torch.stack(new, 1)
        td["y"] = torch.tanh(new)
        td["next", "s"] = new
        return td


def make_env():
    primer = TensorDictPrimer({"s": Unbounded((WIDTH,))}, default_value=0.0)
    cart = GymEnv("CartPole-v1", categorical_action_encoding=True)
    return TransformedEnv(cart, Compose(InitTracker(), StepCounter(15), primer))


env = SerialEnv(4, make_env)
env.set_seed(0)
core, value = Leaky(), nn.Linear(WIDTH, 1)
actor = ProbabilisticActor(
    Seq(core, Mod(nn.Linear(WIDTH, 2), ["y"], ["logits"])), in_keys=["logits"],
    distribution_class=torch.distributions.Categorical,
)
optim = torch.optim.Adam([*actor.parameters(), *value.parameters()], 1e-3)
td = env.reset()
for update in range(8):
    with torch.no_grad():
        data = env.rollout(20, actor, tensordict=td, auto_reset=False, break_when_any_done=False)
    td = step_mdp(data[:, -1], exclude_reward=True, exclude_action=True)
    td["_reset"] = td["done"].clone()
    if td["_reset"].any():
        td = env.reset(td)
    else:
        td = td.exclude("_reset")
        td["is_init"] = torch.zeros_like(td["is_init"])
    seq = data.select("observation", "s", "is_init")
    dist = actor.get_dist(seq)
    v = value(seq["y"])
    with torch.no_grad():
        flat = data["next"].select("observation", "s").reshape(-1)
        flat["is_init"] = torch.zeros(flat.shape[0], 1, dtype=torch.bool)
        v_next = value(core(flat)["y"]).view_as(v)
        end = data["next", "terminated"].float()
        ret = data["next", "reward"] + GAMMA * (1 - end) * v_next
    gain = (ret - v).detach()
    told = dist.log_prob(data["action"]).unsqueeze(-1)
    loss = (v - ret).square().mean() - (told * gain).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
STALE = ('flat["is_init"] =', 'flat["s"] = data["s"].reshape(-1, WIDTH)\n        flat["is_init"] =')
FORGOTTEN = ("torch.zeros(flat.shape[0], 1, dtype", "torch.ones(flat.shape[0], 1, dtype")


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ((), []),
        ((STALE,), ["VL604"]),
        pytest.param((FORGOTTEN,), ["VL604"], marks=pytest.mark.slow),
    ],
)
def test_each_goes_on_from_its_own_state(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], codes: list[str]
) -> None:
    ended, found = judged(rnncheck, tmp_path, "VL604", SCRIPT, *changes)
    assert (ended, found) == (ExitCode.FAILED if codes else ExitCode.VERIFIED, codes)


# The steps of a row as its first observation and the next ones.
OF_NEXT = (
    'seq = data.select("observation", "s", "is_init")',
    """seq = data.select("s", "is_init")
    seen, after = data["observation"], data["next", "observation"]
    seq["observation"] = torch.cat([seen[:, :1], after[:, :-1]], 1)""",
)
SHORT = ("env.rollout(20,", "env.rollout(8,")  # no episode ends in the first
FORGETFUL = ("now = kept * now * start[:, t] + x[:, t]", "now = kept * s[:, t] + x[:, t]")


@pytest.mark.parametrize(("fault", "codes"), [((), []), ((FORGETFUL,), ["LS703"])])
def test_a_pass_over_the_first_observation_and_the_next_ones(
    rnncheck: Any, tmp_path: Path, fault: tuple[tuple[str, str], ...], codes: list[str]
) -> None:
    ended, found = judged(rnncheck, tmp_path, "LS703", SCRIPT, OF_NEXT, SHORT, *fault)
    assert (ended, found) == (ExitCode.FAILED if codes else ExitCode.VERIFIED, codes)
