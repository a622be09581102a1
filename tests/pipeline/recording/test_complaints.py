"""What TorchRL's checker has to say against an env, with the keys that it names."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torchrl.data import TensorSpec, Unbounded
from torchrl.envs import EnvBase, GymEnv, TransformedEnv
from torchrl.envs.transforms import Transform

from rnncheck.pipeline.recording.random_play import complaint


class Extra(Transform):
    """Writes ``told`` and declares ``declared``."""

    def __init__(self, told: str, declared: str) -> None:
        super().__init__()
        self.told, self.declared = told, declared

    def _reset(self, tensordict: TensorDictBase, reset: TensorDictBase) -> TensorDictBase:
        return reset.set(self.told, torch.zeros(1))

    def _step(self, tensordict: TensorDictBase, following: TensorDictBase) -> TensorDictBase:
        return following.set(self.told, torch.zeros(1))

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        observation_spec[self.declared] = Unbounded(shape=(1,))
        return observation_spec


def env_with(told: str, declared: str) -> EnvBase:
    return TransformedEnv(GymEnv("CartPole-v1"), Extra(told, declared))


def test_the_keys_of_both_sides_are_named() -> None:
    said = complaint(env_with("written", "promised"))
    assert said is not None
    assert "\n" not in said
    data, _, specs = said.partition("only the specs have")
    assert "'written'" in data.partition("only the data have")[2]
    assert "'promised'" in specs


def test_a_side_without_keys_is_left_out() -> None:
    said = complaint(env_with("written", "observation"))
    assert said is not None
    assert "'written'" in said
    assert "only the specs have" not in said


def test_an_env_that_keeps_its_word_has_no_complaint() -> None:
    assert complaint(env_with("same", "same")) is None
