"""Whether an observation shows what the task takes: by the env's own state, by what comes again,
and untold where neither says."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import Compose, GymEnv, InitTracker, ObservationNorm, TransformedEnv
from torchrl.modules import GRUModule, QValueModule

import rnncheck
from rnncheck.recall.observed.readout import read_out
from rnncheck.recall.observed.whole import Visit, past_counts
from rnncheck.recall.recommend import TrainedOn, findings_of
from rnncheck.recall.session import PlayedEpisode
from rnncheck.results.memory import (
    AtLag,
    Estimated,
    InfluenceCurve,
    MemoryResult,
    Observed,
    ReturnEffect,
    ReturnsUnder,
)

FIXTURES = Path(__file__).parents[3] / "fixtures"
FEW = ("memory.episodes=2", "memory.steps=40", "memory.lags=10")


def told(spec: str, *overrides: str) -> Observed:
    run = rnncheck.memory(FIXTURES / spec, overrides=[*FEW, *overrides])
    assert run.memory is not None
    assert run.memory.observed is not None
    return run.memory.observed


def of_cartpole(scale: float, velocities: float) -> Observed:
    """What an untrained GRU is shown of CartPole, whose positions and velocities are scaled."""
    torch.manual_seed(0)
    gru = GRUModule(input_size=4, hidden_size=4, in_key="observation", out_key="features")
    head = TensorDictModule(nn.Linear(4, 2), in_keys=["features"], out_keys=["action_value"])
    scales = torch.tensor([scale, velocities, scale, velocities])
    changed = ObservationNorm(loc=torch.ones(4), scale=scales, in_keys=["observation"])

    def make_env() -> TransformedEnv:
        plain = GymEnv("CartPole-v1", categorical_action_encoding=True)
        parts = InitTracker(), changed.clone(), gru.make_tensordict_primer()
        return TransformedEnv(plain, Compose(*parts))

    policy = TensorDictSequential(gru, head, QValueModule(action_space="categorical"))
    run = rnncheck.memory(policy=policy, env=make_env, recorded=16, episodes=2, steps=40, lags=4)
    assert run.memory is not None
    assert run.memory.observed is not None
    return run.memory.observed


def test_an_observation_with_the_envs_own_state_shows_it_all() -> None:
    assert of_cartpole(-2, 0.5) == Observed(True, "each observation holds the env's own state")


def test_velocities_that_are_hidden_are_told_by_earlier_positions() -> None:
    seen = of_cartpole(1, 0)
    assert seen.whole is False
    assert "unexplained by observation and action, and 0.0%" in seen.because


def test_a_maze_whose_junction_looks_alike_shows_a_part() -> None:
    """The agent that turns without regard to the cue is paid by it all the same."""
    seen = told("memory/tmaze_short_slices.yaml", "env.noise=0", "memory.recorded=32")
    assert seen.whole is False
    assert "where another observation was seen 8 steps before" in seen.because


def test_observations_that_never_come_again_leave_it_untold_where_episodes_are_few() -> None:
    seen = told("memory/tmaze_short_slices.yaml")
    assert seen.whole is None
    assert seen.because.startswith(
        "the env shows no state of its own, no observation and action came again in 8 episodes,"
        " and a fit leaves"
    )


def test_a_fit_sees_what_a_maze_with_noise_hides() -> None:
    seen = told("memory/tmaze_short_slices.yaml", "memory.recorded=32")
    assert seen.whole is False
    assert "of the reward unexplained by observation and action, and 0.0%" in seen.because


def swings(count: int, noise: float = 0.0) -> list[tuple[PlayedEpisode, torch.Tensor]]:
    """Episodes of a pendulum that is pushed at random: what was played, and its angle and
    velocity."""
    generator, found = np.random.default_rng(0), []
    for seed in range(count):
        angle, velocity = generator.normal(size=2)
        rows = []
        for _ in range(60):
            push = generator.normal()
            rows.append((angle, velocity, push, -(angle**2) - velocity**2 / 10))
            velocity += 0.1 * (push - 2 * math.sin(angle)) + noise * generator.normal()
            angle += 0.1 * velocity
        seen, acted, paid = torch.tensor(rows, dtype=torch.float64).split([2, 1, 1], 1)
        none = TensorDict({}, batch_size=[60])
        rewards = paid[:, 0]
        played = PlayedEpisode(seed, none, {}, float(rewards.sum()), False, acted, rewards)
        found.append((played, seen))
    return found


@pytest.mark.parametrize(
    ("numbers", "noise", "whole"),
    [
        (2, 0.0, True),
        (1, 0.0, False),  # the velocity is hidden, and the angle before tells it
        (2, 0.5, None),  # what the wind does nothing tells
    ],
)
def test_a_fit_tells_what_a_pendulum_shows(numbers: int, noise: float, whole: bool | None) -> None:
    episodes, seen = zip(*swings(12, noise), strict=True)
    told = read_out(episodes, [one[:, :numbers] for one in seen], lags=8)
    assert told.whole is whole
    assert ("with those" in told.because) is (whole is not True)


def test_a_reward_at_the_end_that_nothing_shown_tells_is_seen() -> None:
    """A corridor whose every observation follows from the one before, and a last reward that is a
    coin."""
    torch.manual_seed(2)
    shown = torch.arange(10, dtype=torch.float64)[:, None]
    episodes = []
    for i in range(12):
        paid = torch.zeros(10, dtype=torch.float64)
        paid[-1] = 2.0 * (i % 3 == 0) - 1
        none = TensorDict({}, batch_size=[10])
        acted = torch.zeros(10, 1, dtype=torch.float64)
        episodes.append(PlayedEpisode(i, none, {}, float(paid.sum()), True, acted, paid))
    told = read_out(episodes, [shown] * 12, lags=8)
    assert told.whole is None
    assert "of the reward unexplained" in told.because


def test_a_fit_of_few_episodes_tells_nothing() -> None:
    episodes, seen = zip(*swings(6), strict=True)
    assert read_out(episodes, seen, lags=8).because == "a fit needs 8 episodes, and has 6"


def test_coins_are_told_by_no_fit() -> None:
    """Observations and rewards of chance: no past is seen to count, whatever is drawn."""
    for seed in range(20):
        torch.manual_seed(seed)
        episodes = [
            PlayedEpisode(
                i, TensorDict({}, batch_size=[30]), {}, 0.0, True,
                torch.randint(0, 2, (30, 1)).double(), torch.randint(0, 2, (30,)).double(),
            )
            for i in range(8)
        ]  # fmt: skip
        seen = [torch.rand(30, 2, dtype=torch.float64) for _ in episodes]
        assert read_out(episodes, seen, lags=4).whole is None


def visits(count: int, follows: float, generator: np.random.Generator) -> list[Visit]:
    """Of a coin that was seen two steps before, and rewards that follow it so often."""
    found = []
    for _ in range(count):
        coin, other = generator.integers(0, 2, 2).tolist()
        reward = coin if generator.random() < follows else int(generator.integers(0, 2))
        found.append(Visit((other, coin), reward))
    return found


def test_chance_is_no_use_of_the_past() -> None:
    """A reward that is a coin of its own: of 300 such envs none is told to hide something."""
    generator = np.random.default_rng(0)
    lags = [past_counts([visits(16, 0.0, generator) for _ in range(4)]).lag for _ in range(300)]
    assert sum(lag > 0 for lag in lags) <= 3  # one in a hundred


def test_the_step_that_counts_is_named() -> None:
    generator = np.random.default_rng(0)
    assert past_counts([visits(32, 0.9, generator)]).lag == 2
    assert past_counts([visits(7, 1.0, generator)]).said.startswith("no observation and action")


@pytest.mark.parametrize(
    ("seen", "why", "fix"),
    [
        (
            Observed(True, "all is shown"),
            "the return does not need it: all is shown",
            "if the task",
        ),
        (Observed(False, "a cue counts"), "is not learned, or worth nothing: a cue", "train on"),
        (Observed(None, "nothing came"), "could not be told: nothing came", "train on"),
    ],
)
def test_the_reason_follows_what_is_shown(seen: Observed, why: str, fix: str) -> None:
    lags = tuple(AtLag(lag, 9, 0.1, 0.1, 0.1, 0.1, 0.1) for lag in range(3))
    curve = InfluenceCurve("value", "difference", "replaced", "", None, lags, 0.0, 8, 2)
    lost = Estimated(0.0, -0.01, 0.01)
    under = ReturnsUnder("reset every step", (1.0, 1.0), lost, ReturnEffect.SAME, 0.1)
    result = MemoryResult((9, 9), seen, (curve,), returns=(under,))
    (found,) = findings_of(result, TrainedOn(4, 0, "slice_len"))
    assert why in found.explained
    assert ("cannot be learned" in found.explained) is (seen.whole is not True)
    assert fix in found.fix
