"""``rnncheck run``: a policy that hands the action it drew on, and a pass of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.kept_action_script import CUT, KEPT_ACTION, OWN_ACTION
from tests.watching.scripts import judged


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("changes", "codes", "expected"),
    [
        pytest.param((), "EQ201,EQ205", (ExitCode.VERIFIED, []), id="healthy"),
        pytest.param((OWN_ACTION,), "EQ201", (ExitCode.FAILED, ["EQ201"]), id="a step early"),
        pytest.param((CUT,), "EQ205", (ExitCode.FAILED, ["EQ205"]), id="cut at every step"),
    ],
)
def test_the_pass_is_held_against_acting(
    rnncheck: Any,
    tmp_path: Path,
    changes: tuple[tuple[str, str], ...],
    codes: str,
    expected: Any,
) -> None:
    """Heads that are trained apart, on what is detached, are no cut of the graph."""
    assert judged(rnncheck, tmp_path, codes, KEPT_ACTION, *changes) == expected
