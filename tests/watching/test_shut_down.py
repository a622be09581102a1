"""``rnncheck run``: a script that shuts its workers down and comes to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

SHORT = ("total_frames=1_280", "total_frames=256")


@pytest.mark.slow
def test_workers_that_are_gone_are_asked_for_nothing(
    rnncheck: Any, tmp_path: Path, forked_workers: None
) -> None:
    """What was collected before is judged."""
    script = planted(tmp_path, "dqn_workers.py", SHORT)
    code, told, _ = run(rnncheck, "--select", "CL401,EQ201", script)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
