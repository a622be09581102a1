"""``rnncheck run``: targets that a script makes itself over TorchRL's collectors and rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.own_targets_script import (
    AHEAD,
    AS_NAMED,
    EPISODES,
    FORGETFUL,
    FROM_RESETS,
    GAE_CALLED,
    NEXT_FROM_ZEROS,
    NOT_RESET,
    OVER_ROWS,
    RENAMED,
    ROWS,
    STATE_AHEAD,
    TIME_INSIDE,
    ZERO_STATE,
)
from tests.watching.scripts import failed, judged, run, written

Changes = tuple[tuple[str, str], ...]


@pytest.mark.parametrize(
    ("text", "changes", "codes", "expected"),
    [
        pytest.param(FROM_RESETS, (), "BD301,EQ201,GR801,VL604", [], id="from resets"),
        pytest.param(
            FROM_RESETS,
            (NEXT_FROM_ZEROS,),
            "VL604",
            ["VL604"],
            id="next from zeros",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            FROM_RESETS,
            (NOT_RESET,),
            "EQ201",
            ["EQ201"],
            id="not from resets",
            marks=pytest.mark.slow,
        ),
        pytest.param(AHEAD, (), "EQ201,VL6", [], id="estimates", marks=pytest.mark.slow),
        pytest.param(
            AHEAD, FORGETFUL, "VL6", [], id="a critic without memory", marks=pytest.mark.slow
        ),
        pytest.param(
            AHEAD,
            (STATE_AHEAD,),
            "VL604",
            ["VL604"],
            id="state ahead of the step",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            AHEAD, (ZERO_STATE,), "VL604", ["VL604"], id="zero states", marks=pytest.mark.slow
        ),
        pytest.param(
            AHEAD, (GAE_CALLED,), "VL601", [], id="called with its time", marks=pytest.mark.slow
        ),
        pytest.param(
            AHEAD,
            (GAE_CALLED, OVER_ROWS),
            "VL601",
            ["VL601"],
            id="over the rows",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            AHEAD, (GAE_CALLED, RENAMED, AS_NAMED, OVER_ROWS), "VL601", ["VL601"], id="renamed"
        ),
        pytest.param(
            EPISODES, (ROWS,), "BD301,EQ201,RP503", [], id="episodes", marks=pytest.mark.slow
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


def test_a_batch_that_hides_its_time_is_not_judged(rnncheck: Any, tmp_path: Path) -> None:
    path = written(tmp_path, EPISODES, TIME_INSIDE)
    code, told, _ = run(rnncheck, "--select", "GR801,LS703,RP502,RP503", path)
    assert (code, failed(told)) == (ExitCode.NOT_SHOWN, [])
    reasons = {one["reason"] for one in told["checks"] if one["outcome"] == "could-not-look"}
    assert any("batch_size=[rows, steps]" in one for one in reasons)
