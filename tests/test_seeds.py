"""Other seeds raise no alarm: `make seeds` asks every healthy fixture, these are the ones that once
did."""

from __future__ import annotations

from pathlib import Path

import pytest

import rnncheck
from rnncheck.results.model import Outcome

FIXTURES = Path(__file__).parent.parent / "fixtures"
HEALTHY = ["ppo_two_memories", "pendulum_ddpg", "nested_rows"]

# Where an episode ends at the last step of a row, and another row's runs on behind it; where one
# begins there.
ONCE_BLAMED = [
    ("broken/cl405_boundary_unmarked_near_miss", 1, "CL403"),
    ("training/ppo_two_memories", 5, "VL604"),
]


@pytest.mark.parametrize(("name", "seed", "code"), ONCE_BLAMED)
def test_a_seed_that_was_blamed_passes(name: str, seed: int, code: str) -> None:
    run = rnncheck.verify(FIXTURES / f"{name}.yaml", seed=seed, select=[code])
    assert [check.outcome for check in run.checks] == [Outcome.PASSED]


def test_episodes_of_one_step_fail_nothing() -> None:
    path, once = FIXTURES / "training" / "q_slices.yaml", ["env.transforms.1.max_steps=1"]
    run = rnncheck.verify(path, overrides=once, select=["GR", "LS", "RP"])
    assert {check.code for check in run.checks if check.outcome is Outcome.FAILED} == set()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("name", HEALTHY)
def test_no_seed_fails_a_healthy_pipeline(name: str, seed: int) -> None:
    run = rnncheck.verify(FIXTURES / "training" / f"{name}.yaml", seed=seed)
    assert {check.code for check in run.checks if check.outcome is Outcome.FAILED} == set()
    assert run.exit_code == 0
