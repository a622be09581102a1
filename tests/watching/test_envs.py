"""Copies of a script's envs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torchrl.envs import (
    Compose,
    EnvBase,
    GymEnv,
    InitTracker,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
)

from rnncheck.results.exit_codes import ExitCode
from rnncheck.watching.envs import env_like
from tests.watching.scripts import failed, planted, run


class _Keeping(RewardSum):
    """Keeps for itself what it was asked to see."""

    def remember(self) -> None:
        self.__dict__["kept"] = self.parent


def _made() -> EnvBase:
    return TransformedEnv(
        GymEnv("CartPole-v1"), Compose(InitTracker(), StepCounter(max_steps=12), _Keeping())
    )


def _played(env: EnvBase) -> torch.Tensor:
    torch.manual_seed(3)
    rollout = env.rollout(20, break_when_any_done=False)
    return torch.cat(
        [rollout["next", "observation"].flatten(), rollout["episode_reward"].flatten()]
    )


def test_a_batch_of_envs_is_copied_as_it_is() -> None:
    env = SerialEnv(2, _made)
    env.set_seed(1)
    env.rollout(5, break_when_any_done=False)
    whole, drawn = copy.deepcopy(env), torch.get_rng_state()
    like = env_like(env)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert like.output_spec == whole.output_spec
    assert like.input_spec == whole.input_spec
    assert torch.equal(_played(like), _played(whole))


def test_copied_transforms_see_the_env_ahead_of_them() -> None:
    env = SerialEnv(1, _made)
    env.reset()
    last = env._envs[0].transform[2]
    last.remember()
    before = last.parent
    like = env_like(env)._envs[0].transform[2]
    assert last.parent is before
    assert type(like.parent) is TransformedEnv
    assert len(like.parent.transform) == 2
    assert type(like.kept) is TransformedEnv


# A function that appends the same transform to each env that it makes: TorchRL refuses the second.
ONCE = (
    "collector = Collector(env, policy",
    """def make_env():
    made = TransformedEnv(GymEnv("CartPole-v1"), Compose(InitTracker(), StepCounter(200)))
    made.append_transform(primer)
    return made


primer = lstm.make_tensordict_primer()
collector = Collector(make_env, policy""",
)


def test_a_function_that_makes_one_env_only(rnncheck: Any, tmp_path: Path) -> None:
    """What it has made is copied."""
    path = planted(tmp_path, "dqn_cartpole.py", ONCE)
    code, told, _ = run(rnncheck, "--select", "WR102,WR103,CL402,BD302", path)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    assert {check["outcome"] for check in told["checks"]} == {"passed"}


# Its first step raises; the collector would have added what the policy needs of the env.
BREAKS = (
    "collector = Collector(env, policy,",
    """class Broken(GymEnv):
    def _step(self, td):
        raise RuntimeError("the arm is stuck")


collector = Collector(
    lambda: Broken("CartPole-v1"), policy, auto_register_policy_transforms=True,""",
)


def test_an_env_that_breaks_under_a_collector_that_adds_to_it(
    rnncheck: Any, tmp_path: Path
) -> None:
    """It is judged with what the collector adds, though that gave no batch."""
    path = planted(tmp_path, "dqn_cartpole.py", BREAKS)
    code, told, _ = run(rnncheck, "--select", "WR102,WR103,WR108", path)
    assert (code, failed(told)) == (ExitCode.FAILED, ["WR108"])
    assert "the arm is stuck" in told["checks"][2]["reason"] + str(told["checks"][2]["findings"])
