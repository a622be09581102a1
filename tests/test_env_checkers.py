"""The table of README that says what the checkers of envs see: `make check-peers` prints it."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
from env_checkers import FIXTURES, _on_gymnasium, answers, specs

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")


class OutOfItsSpace(gymnasium.Env[Any, Any]):
    """Its observations have another shape than it says."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}


def test_a_checker_raises_for_an_env_that_is_wrong() -> None:
    ask = _on_gymnasium("gymnasium check_env", SimpleNamespace(_env=OutOfItsSpace()))
    assert ask is not None
    assert "not within the observation space" in (ask() or "")


def test_a_missing_primer_is_not_seen_by_checkers_of_envs() -> None:
    found = list(answers(FIXTURES / "broken" / "wr103_missing_state_primer.yaml", False))
    assert {"check_env_specs", "gymnasium check_env"} <= {one.checker for one in found}
    assert all(one.asked and not one.raised for one in found)


def test_an_env_that_breaks_its_specs_is_seen() -> None:
    found = list(answers(FIXTURES / "broken" / "wr108_env_breaks_its_specs.yaml", False))
    raised = {one.checker: one.raised for one in found if one.raised}
    assert set(raised) == {"check_env_specs"}


def test_the_readme_counts_the_fixtures() -> None:
    told = re.search(r"hold (\d+) pipelines with one fault each, and (\d+) healthy", README)
    assert told is not None
    ones = [healthy for _, healthy in specs()]
    assert [int(count) for count in told.groups()] == [ones.count(False), ones.count(True)]
    assert len(re.findall(rf" of {ones.count(False)} (?:faults|\(|\|)", README)) >= 2
