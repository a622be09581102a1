"""``rnncheck run``: envs whose steps show the same, or several things at once; actions of several
choices; rewards with the value of what a time limit cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.corridor_script import (
    BOOTSTRAPS_ENDS,
    CARRIED_ON,
    CORRIDOR,
    FROM_ZEROS,
    LOGS_TURNED,
    ONE_STEP,
    ROOM,
    ROWS_MIX,
    RUNS_ON,
    TRIALS,
)
from tests.watching.scripts import judged

Changes = tuple[tuple[str, str], ...]
_PASS = "BD301,BD304,BD305,EQ201,RP504"
slow = pytest.mark.slow


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("text", "changes", "codes", "expected"),
    [
        pytest.param(CORRIDOR, (), _PASS, [], id="corridor", marks=pytest.mark.slow),
        pytest.param(CORRIDOR, (RUNS_ON,), "BD301", ["BD301"], id="runs on"),
        pytest.param(CORRIDOR, (FROM_ZEROS,), "RP504", ["RP504"], id="from zeros"),
        pytest.param(
            CORRIDOR, (ROWS_MIX,), "BD305", ["BD305"], id="rows mix", marks=pytest.mark.slow
        ),
        pytest.param(CORRIDOR, (LOGS_TURNED,), "LS707", ["LS707"], id="log-probabilities"),
        pytest.param(CORRIDOR, ONE_STEP, "LS707", [], id="values of the next step"),
        pytest.param(TRIALS, (), "BD3,CL40,EQ2,LS707,RP5", [], id="trials", marks=pytest.mark.slow),
        pytest.param(TRIALS, (CARRIED_ON,), "CL403", ["CL403"], id="trials, carried on"),
        pytest.param(ROOM, (), _PASS, [], id="several things", marks=pytest.mark.slow),
        pytest.param(ROOM, (), "LS,VL,GR,RP", [], id="its loss", marks=slow),
        pytest.param(
            ROOM, (RUNS_ON,), "BD301", ["BD301"], id="room runs on", marks=pytest.mark.slow
        ),
        pytest.param(ROOM, (FROM_ZEROS,), "RP504", ["RP504"], id="room from zeros"),
        pytest.param(
            ROOM, (BOOTSTRAPS_ENDS,), "LS701", ["LS701"], id="ends", marks=pytest.mark.slow
        ),
    ],
)
def test_what_is_named(
    rnncheck: Any,
    tmp_path: Path,
    text: str,
    changes: Changes,
    codes: str,
    expected: list[str],
) -> None:
    code = ExitCode.FAILED if expected else ExitCode.VERIFIED
    assert judged(rnncheck, tmp_path, codes, text, *changes) == (code, expected)
