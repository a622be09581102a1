"""Copies of a script's envs."""

from __future__ import annotations

import copy

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

from rnncheck.watching.envs import env_like


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
