"""``rnncheck run``: steps that a time limit cut and that a script takes for ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

STORED = "        buffer.extend(rows)\n"
AS_ENDS = (STORED, '        rows["next", "terminated"] = rows["next", "done"].clone()\n' + STORED)
AS_THEY_ARE = (
    STORED,
    '        rows["next", "terminated"] = rows["next", "terminated"].clone()\n' + STORED,
)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(AS_ENDS, ["VL603"], id="marked as terminated"),
        pytest.param(AS_THEY_ARE, [], id="written as they are"),
    ],
)
def test_they_are_told_of(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], expected: list[str]
) -> None:
    """It may be a choice, so that it is a warning."""
    script = planted(tmp_path, "sac_rollouts.py", change)
    code, told, _ = run(rnncheck, "--select", "VL603", script)
    assert (code, failed(told)) == (ExitCode.VERIFIED, expected)
