"""``rnncheck run``: loops over vector envs whose steps are easily taken for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged
from tests.watching.vector_scripts import CORRIDOR_PPO, SEVERAL_STEPS

NOT_RESET = ("s = (s[0] * keep, s[1] * keep)\n            q_t", "q_t")
CUT = (
    "q_t, s = self.step(obs[t], s)",
    "q_t, s = self.step(obs[t], (s[0].detach(), s[1].detach()))",
)
OVER_LIMITS = ("last = (cut[k] | dead[k])", "last = (dead[k] | dead[k])")


def test_an_episode_that_ends_with_a_half_of_the_rollout(rnncheck: Any, tmp_path: Path) -> None:
    """What another env showed next is what the new episode begins with."""
    assert judged(rnncheck, tmp_path, "CL405,RP507", CORRIDOR_PPO) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_calls_by_turns_are_told_apart(rnncheck: Any, tmp_path: Path) -> None:
    """Of a pass that is made for as many rows as the script has envs."""
    found = judged(rnncheck, tmp_path, "BD301,EQ201,EQ205", SEVERAL_STEPS)
    assert found == (ExitCode.VERIFIED, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(NOT_RESET, "BD301", id="no start is cleared"),
        pytest.param(CUT, "GR801", id="the graph is cut at every step"),
        pytest.param(OVER_LIMITS, "LS701", id="returns run on over limits"),
    ],
)
def test_their_faults_are_found(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], code: str
) -> None:
    assert judged(rnncheck, tmp_path, code, SEVERAL_STEPS, change) == (ExitCode.FAILED, [code])
