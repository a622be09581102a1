"""``rnncheck run``: lines ahead of a loss that change the running means that they read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.norms_script import GOES_ON, NO_MODE, SCRIPT
from tests.watching.scripts import judged


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="healthy"),
        pytest.param(
            (GOES_ON,),
            (ExitCode.FAILED, ["VL601"]),
            id="over truncated ends",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            (NO_MODE,), (ExitCode.FAILED, ["LS703"]), id="step by step", marks=pytest.mark.slow
        ),
    ],
)
def test_values_are_normalised_by_what_came_before(
    rnncheck: Any,
    tmp_path: Path,
    changes: tuple[tuple[str, str], ...],
    expected: tuple[int, list[str]],
) -> None:
    assert judged(rnncheck, tmp_path, "VL601,VL604,LS703,LS705", SCRIPT, *changes) == expected
