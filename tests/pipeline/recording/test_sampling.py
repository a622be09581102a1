"""The same spec and seed give the same data, whoever draws it."""

from __future__ import annotations

import random

import gymnasium
import numpy as np
import torch
from gymnasium.utils import seeding

from rnncheck.pipeline.guard.process import settled_envs

REPLAY = """
replay:
  storage: {use: LazyTensorStorage, max_size: 400}
  sampler: {use: SliceSampler, slice_len: 8, strict_length: false}
  batch_size: 32
  prefetch: 8
"""
# Statistics of episodes that nobody seeded, as TorchRL's page "Recurrent DQN" takes them.
MEASURED = """
from torchrl.envs import Compose, GymEnv, InitTracker, ObservationNorm, TransformedEnv

def make_env():
    norm = ObservationNorm(standard_normal=True, in_keys=["observation"])
    env = TransformedEnv(
        GymEnv("CartPole-v1", categorical_action_encoding=True), Compose(InitTracker(), norm)
    )
    norm.init_stats(20, reduce_dim=[0], cat_dim=0)
    return env
"""


def with_other_random_numbers(number: int) -> None:
    """What ran before in the process leaves its generators somewhere."""
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


def test_a_buffer_that_prefetches_gives_the_same_samples_again(bench, dqn_text):
    drawn = []
    for number in range(3):
        with_other_random_numbers(number)
        pipeline = bench.build(dqn_text + REPLAY)
        drawn.append([sample["index"].tolist() for sample in pipeline.samples])
        assert pipeline.replay._prefetch  # the user's own, as it was
    assert drawn[0] == drawn[1] == drawn[2]
    assert drawn[0][0] != drawn[0][1]


def test_an_env_that_measures_unseeded_episodes_gives_the_same_batches_again(bench, dqn_text):
    (bench.folder / "measured.py").write_text(MEASURED)
    own = dqn_text[dqn_text.index("env:") : dqn_text.index("policy:")]
    seen = []
    for number, seed in enumerate((0, 0, 1)):
        with_other_random_numbers(number)
        text = dqn_text.replace("name: dqn", f"name: dqn\nseed: {seed}")
        pipeline = bench.build(text, own, 'env: {factory: "measured:make_env"}\n')
        seen.append(pipeline.batches[0]["observation"])
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])


def first_number(seed: int | None = None) -> float:
    env = gymnasium.make("CartPole-v1")
    return float(env.reset(seed=seed)[0][0])


def test_envs_are_settled_inside_only_and_keep_a_seed_of_their_own() -> None:
    original, mine = seeding.np_random, first_number(7)
    with settled_envs(3):
        one, two = first_number(), first_number()
        assert first_number(7) == mine
    with settled_envs(3):
        assert (first_number(), first_number()) == (one, two)
    with settled_envs(4):
        assert first_number() != one
    assert one != two
    assert seeding.np_random is original
