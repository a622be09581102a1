"""``rnncheck run``: what befalls a plain loop in a later rollout alone, at its env's time limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.limits_script import LIMIT_IS_NO_END, LIMITS
from tests.watching.scripts import judged


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="returns end there"),
        pytest.param((LIMIT_IS_NO_END,), (ExitCode.FAILED, ["LS701"]), id="returns run on"),
    ],
)
def test_a_rollout_in_which_it_cuts_an_episode_is_judged(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: Any
) -> None:
    assert judged(rnncheck, tmp_path, "LS701,CL403", LIMITS, *changes) == expected
