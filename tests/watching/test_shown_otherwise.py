"""``rnncheck run``: envs of gymnasium's that a script shows in a way of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rnncheck.results.exit_codes import ExitCode
from rnncheck.watching.forms.four_parts import FiveParts, five_parts
from rnncheck.watching.forms.own_env import wrapped_env
from rnncheck.watching.seams.stepped_env import SteppedEnv
from tests.watching.scripts import judged
from tests.watching.shown_otherwise_script import IN_FOUR, KEEPS, OTHERWISE, STALE

CODES = "BD301,CL403,CL404,LS701,VL603"


@pytest.mark.first(2)
@pytest.mark.parametrize("text", [OTHERWISE, IN_FOUR], ids=["by a class", "in four parts"])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), "", id="healthy"),
        pytest.param((KEEPS,), "CL403", id="the loop keeps the state behind an end"),
        pytest.param((STALE,), "CL404", id="each rollout begins with the first state"),
    ],
)
def test_the_loop_is_judged(
    rnncheck: Any, tmp_path: Path, text: str, changes: tuple[tuple[str, str], ...], expected: str
) -> None:
    code, found = judged(rnncheck, tmp_path, CODES, text, *changes)
    assert code == (ExitCode.FAILED if expected else ExitCode.VERIFIED)
    assert expected in found if expected else not found


class Four(gymnasium.Wrapper[Any, Any, Any, Any]):
    """As gym's envs were."""

    def step(self, action: Any) -> Any:
        seen, reward, over, cut, told = self.env.step(action)
        return seen, reward, over or cut, told


def test_a_time_limit_is_told_from_an_end() -> None:
    """By the env inside, which the user's own is not changed for."""
    env = FiveParts(Four(gymnasium.make("CartPole-v1", max_episode_steps=3)))
    env.reset(seed=0)
    found = [env.step(n % 2)[2:4] for n in range(3)]
    assert found == [(False, False), (False, False), (False, True)]
    assert five_parts((0, 1.0, True, {}), None)[2:4] == (True, False)
    assert five_parts((0, 1.0, True, {"TimeLimit.truncated": True}), None)[2:4] == (False, True)
    assert five_parts((0, 1.0, True, {}), (0, 1.0, False, False, {}))[2:4] == (True, False)


def test_rows_in_four_parts_are_left_alone() -> None:
    """A vector env of the user's own may give arrays: nothing is raised into the script."""
    env, seen = SteppedEnv(gymnasium.make("CartPole-v1"), None), list[Any]()
    rows = np.zeros((2, 4)), np.zeros(2), np.array([True, False]), [{}, {}]
    env.notes_as_five(seen.append, rows, None)
    assert not seen
    env.notes_as_five(seen.append, (np.zeros(4), 1.0, True, None), None)
    assert seen[0][2:4] == (True, False)


def test_a_class_that_shows_one_env_is_told_from_others() -> None:
    """Not from an agent with networks, nor a vector env of several."""

    class Holds:
        def __init__(self, **held: Any) -> None:
            vars(self).update(held)

    one, other = (gymnasium.make("CartPole-v1") for _ in range(2))
    assert wrapped_env(Holds(env=one, seen=0)) is one
    assert wrapped_env(Holds(env=one, envs=[other])) is None
    assert wrapped_env(Holds(envs=[one])) is None
    assert wrapped_env(Holds(seen=0)) is None
