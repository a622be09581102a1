"""``rnncheck run``: minibatches of slices that are normalised; heads that acting does not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, run, written
from tests.watching.slices_script import (
    BESIDE,
    DETACHED,
    FLAT,
    FROM_ZEROS,
    RUNS_ON,
    SLICES,
    STATE_BEHIND,
)

Changes = tuple[tuple[str, str], ...]


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("text", "changes", "code", "expected"),
    [
        pytest.param(SLICES, (), "LS701", [], id="normalised", marks=pytest.mark.slow),
        pytest.param(
            SLICES, (RUNS_ON,), "LS701", ["LS701"], id="gains run on", marks=pytest.mark.slow
        ),
        pytest.param(
            SLICES, (), "BD3,EQ,RP504,GR8", [], id="pieces of trajectories", marks=pytest.mark.slow
        ),
        pytest.param(
            SLICES, FLAT, "BD3,EQ,RP504,GR8", [], id="in one dimension", marks=pytest.mark.slow
        ),
        pytest.param(SLICES, (FROM_ZEROS,), "RP504", ["RP504"], id="from zeros"),
        pytest.param(SLICES, (STATE_BEHIND,), "RP504", ["RP504"], id="state behind the step"),
        pytest.param(BESIDE, (), "GR803", [], id="a model beside"),
        pytest.param(BESIDE, (DETACHED,), "GR803", ["GR803"], id="a memory without gradient"),
    ],
)
def test_what_is_named(
    rnncheck: Any, tmp_path: Path, text: str, changes: Changes, code: str, expected: list[str]
) -> None:
    told = run(rnncheck, "--select", code, written(tmp_path, text, *changes))
    assert (told[0], failed(told[1])) == (
        ExitCode.FAILED if expected else ExitCode.VERIFIED,
        expected,
    )
