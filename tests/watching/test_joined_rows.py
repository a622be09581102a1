"""``rnncheck run``: rows of several envs laid end to end, where an estimator runs on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

JOINED = (
    "                advantage(data)\n",
    "                data = advantage(data.reshape(-1)).reshape(data.shape)\n",
)
ONE_PASS_EACH = ("shifted=True", "deactivate_vmap=True")
NORMALISED = ("shifted=True", "deactivate_vmap=True, average_gae=True")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        # The seed of the script ends an episode between the halves of its first batch.
        pytest.param((JOINED, ONE_PASS_EACH), ["VL601"], id="joined"),
        pytest.param((NORMALISED,), [], id="a mean and a deviation of all rows"),
    ],
)
def test_what_reaches_the_row_ahead_alone_is_told(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], named: list[str]
) -> None:
    path = planted(tmp_path, "ppo_cartpole.py", *changes)
    code, told, _ = run(rnncheck, "--select", "VL601", path)
    assert (code, failed(told)) == (ExitCode.FAILED if named else ExitCode.VERIFIED, named)
