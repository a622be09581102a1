"""``rnncheck run``: own losses on a collector's batches with time first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, judged, run, written
from tests.watching.time_first_script import NEVER_RESET, OWN_STATE, SCRIPT


@pytest.mark.slow
def test_a_healthy_one_shows_all(rnncheck: Any, tmp_path: Path) -> None:
    code, told, _ = run(rnncheck, written(tmp_path, SCRIPT))
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    assert {one["standing"] for one in told["guarantees"]} == {"shown"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(NEVER_RESET, "BD301", id="never reset"),
        pytest.param(
            OWN_STATE, "VL604", id="next values from the state before", marks=pytest.mark.slow
        ),
    ],
)
def test_a_fault_is_named(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], code: str
) -> None:
    assert judged(rnncheck, tmp_path, code, SCRIPT, change) == (ExitCode.FAILED, [code])
