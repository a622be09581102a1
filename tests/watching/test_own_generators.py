"""Generators that a script holds: the same numbers under one seed, and put back behind a call."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rnncheck.watching.forms.own_generators import drawn_from_the_global_one

MADE = {
    "python": lambda: random.Random(3),
    "numpy": lambda: np.random.default_rng(3),
    "old numpy": lambda: np.random.RandomState(3),
    "torch": lambda: torch.Generator().manual_seed(3),
}


def drawn(one: Any) -> float:
    if isinstance(one, torch.Generator):
        return float(torch.rand(1, generator=one))
    return float(one.random() if hasattr(one, "random") else one.random_sample())


def inside(one: Any, seed: int) -> float:
    random.seed(seed)
    with drawn_from_the_global_one(lambda: one, None, {}):
        return drawn(one)


@pytest.mark.parametrize("kind", MADE)
def test_a_seed_tells_what_is_drawn(kind: str) -> None:
    one = MADE[kind]()
    first = inside(one, 1)
    assert inside(one, 1) == first
    assert inside(one, 2) != first


@pytest.mark.parametrize("kind", MADE)
def test_the_script_goes_on_as_it_would_have(kind: str) -> None:
    one, alone = MADE[kind](), MADE[kind]()
    inside(one, 1)
    assert drawn(one) == drawn(alone)


def test_those_of_an_owner_and_of_arguments_are_found() -> None:
    class Agent:
        def __init__(self) -> None:
            self.rng = random.Random(1)

    agent, given = Agent(), random.Random(2)
    before = agent.rng.getstate(), given.getstate()
    with drawn_from_the_global_one(drawn, agent, {"rng": given}):
        assert (agent.rng.getstate(), given.getstate()) != before
    assert (agent.rng.getstate(), given.getstate()) == before


@pytest.mark.parametrize("alone", [True, False])
def test_the_action_space_of_an_env_draws_the_same_under_one_seed(alone: bool) -> None:
    parts = gym.spaces.Discrete(99), gym.spaces.Box(0, 1, (2,))
    space = gym.spaces.Tuple(parts) if not alone else parts[0]
    env = SimpleNamespace(action_space=space)
    space.seed(3)
    state = parts[0].np_random.bit_generator.state

    def sampled(seed: int) -> list[float]:
        random.seed(seed)
        with drawn_from_the_global_one(len, None, {"env": env}):
            drawn = [space.sample() for _ in range(4)]
        return np.hstack(
            [np.hstack(one if isinstance(one, tuple) else [one]) for one in drawn]
        ).tolist()

    assert sampled(1) == sampled(1) != sampled(2)
    assert parts[0].np_random.bit_generator.state == state
