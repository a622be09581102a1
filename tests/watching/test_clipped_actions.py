"""``rnncheck run``: actions clipped on their way to the env, buffers that turn their arrays
before they are read, and rewards with the value of what a time limit cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.clipped_script import (
    AFTER_THE_STEP,
    FROM_ZEROS,
    OF_THE_RESET,
    SCRIPT,
    TURNED_WRONG,
)
from tests.watching.scripts import judged

Change = tuple[str, str]
_ASKED = "BD301,BD306,CL403,CL406,EQ201,GR801,LS701,RP502,RP504,VL603,VL604"


@pytest.mark.slow
def test_a_healthy_one_is_verified(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, _ASKED, SCRIPT) == (ExitCode.VERIFIED, [])


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(OF_THE_RESET, "VL603", id="valued after the reset"),
        pytest.param(FROM_ZEROS, "VL603", id="valued from zeros"),
        pytest.param(TURNED_WRONG, "CL406", id="rows of other envs"),
        pytest.param(
            AFTER_THE_STEP, "CL406", id="states behind their steps", marks=pytest.mark.slow
        ),
    ],
)
def test_a_fault_is_named(rnncheck: Any, tmp_path: Path, change: Change, code: str) -> None:
    assert judged(rnncheck, tmp_path, code, SCRIPT, change) == (ExitCode.FAILED, [code])
