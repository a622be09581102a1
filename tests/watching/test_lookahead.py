"""``rnncheck run``: a pass over one observation more than there are steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.lookahead_script import (
    BY_TURNS,
    FROM_BEFORE,
    KEPT,
    OF_NEXT,
    OWN_VALUE,
    SCRIPT,
)
from tests.watching.scripts import judged


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="healthy"),
        pytest.param(
            (KEPT,), (ExitCode.FAILED, ["LS701"]), id="a state that is kept", marks=pytest.mark.slow
        ),
        pytest.param(
            (OWN_VALUE,),
            (ExitCode.FAILED, ["VL604"]),
            id="the step's own value",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            (BY_TURNS, OF_NEXT), (ExitCode.VERIFIED, []), id="by turns", marks=pytest.mark.slow
        ),
        pytest.param(
            (BY_TURNS, OF_NEXT, FROM_BEFORE),
            (ExitCode.FAILED, ["VL604"]),
            id="by turns, from the state before",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_pass_goes_on_behind_the_last_step(
    rnncheck: Any,
    tmp_path: Path,
    changes: tuple[tuple[str, str], ...],
    expected: tuple[int, list[str]],
) -> None:
    assert judged(rnncheck, tmp_path, "LS701,VL604", SCRIPT, *changes) == expected
