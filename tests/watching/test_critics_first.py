"""``rnncheck run``: critics that are trained ahead of the policy, rows of T+1, and an actor and a
critic with a memory of their own each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.critic_first_script import (
    ACTORS_STATE,
    CRITIC_FROM_ZEROS,
    EVERY_SECOND,
    ONE_MORE,
    OVER_ENDS,
    STATES_BESIDE,
    STATES_OF_THE_NEXT,
    TWO_MEMORIES,
)
from tests.watching.scripts import failed, run, written

Changes = tuple[tuple[str, str], ...]
slow = pytest.mark.slow


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("text", "changes", "codes", "expected"),
    [
        pytest.param(
            STATES_BESIDE,
            (),
            "BD3,EQ2,GR,LS701,RP5,VL603",
            [],
            id="states beside",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            STATES_BESIDE, (STATES_OF_THE_NEXT,), "RP504", ["RP504"], id="states of the next"
        ),
        pytest.param(
            ONE_MORE, (), "BD3,EQ2,GR,LS701,RP5,VL603", [], id="rows of T+1", marks=pytest.mark.slow
        ),
        pytest.param(ONE_MORE, EVERY_SECOND, "GR803,LS701", [], id="actor at every second update"),
        pytest.param(ONE_MORE, (OVER_ENDS,), "VL603", ["VL603"], id="T+1, over ends"),
        pytest.param(
            TWO_MEMORIES,
            (),
            "BD301,EQ201,RP504,VL604",
            [],
            id="two memories",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            TWO_MEMORIES, (CRITIC_FROM_ZEROS,), "RP504", ["RP504"], id="critic from zeros"
        ),
        pytest.param(
            TWO_MEMORIES, (ACTORS_STATE,), "EQ201", ["EQ201"], id="actor's state", marks=slow
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
    code, told, _ = run(rnncheck, "--select", codes, written(tmp_path, text, *changes))
    assert failed(told) == expected
    assert code == (ExitCode.FAILED if expected else ExitCode.VERIFIED)
