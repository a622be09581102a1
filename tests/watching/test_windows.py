"""``rnncheck run``: R2D2 on windows of T+1 observations with a burn-in, with the action before as a
number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import windows_script as scripts
from tests.watching.scripts import judged
from tests.watching.windows_script import WINDOWS

CODES = "CL403,CL406,EQ201,EQ205,GR801,RP504,RP505,RP507,VL604"
Changes = tuple[tuple[str, str], ...]


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="as they are"),
        pytest.param(scripts.NO_ACTION_IS_THE_LAST, id="another number for none"),
        pytest.param((scripts.ZEROS,), id="from zeros"),
    ],
)
def test_healthy_ones_are_verified(rnncheck: Any, tmp_path: Path, changes: Changes) -> None:
    assert judged(rnncheck, tmp_path, CODES, WINDOWS, *changes) == (ExitCode.VERIFIED, [])


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(scripts.STATE_LEFT, "RP504", id="the state of the next step"),
        pytest.param(scripts.NOT_BURNED, "VL604", id="the state ahead of the burn-in"),
        pytest.param(scripts.SAME_NEXT, "VL604", id="the value of the step itself"),
        pytest.param(scripts.NOT_RESET, "CL403", id="not reset"),
        pytest.param(scripts.UNMASKED, "RP505", id="not masked"),
    ],
)
def test_a_fault_is_named(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], expected: str
) -> None:
    code, found = judged(rnncheck, tmp_path, CODES, WINDOWS, change)
    assert code == ExitCode.FAILED
    assert expected in found
