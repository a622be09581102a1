"""``rnncheck run``: minibatches of rows that are weighed with what was made for other rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

GAIN, RETURNS = "gain = b_advantages[rows]", "b_returns[rows]"
NORMAL = "\n                gain = (gain - gain.mean()) / (gain.std() + 1e-8)"
OTHERS = "flat[:, begin : begin + ENVS // MINIBATCHES].ravel()"
# A row that is measured against the others of its minibatch, or of all.
BY_RANK = "gain = b_advantages[rows].argsort().argsort() - 5.0"
BESIDE = (
    "gain = b_advantages[rows] - b_advantages.view(STEPS, -1).mean(1).repeat_interleave(len(mine))"
)
OTHERS_ALONE = """gain = b_advantages[rows].view(STEPS, -1)
                rest = (gain.sum(1, keepdim=True) - gain) / max(len(mine) - 1, 1)
                gain = (gain - rest).flatten()"""
SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "change",
    [
        pytest.param((GAIN, f"gain = b_advantages[{OTHERS}]"), id="advantages", marks=SLOW),
        pytest.param((GAIN, f"gain = b_advantages[{OTHERS}]{NORMAL}"), id="normalised", marks=SLOW),
        pytest.param((RETURNS, f"b_returns[{OTHERS}]"), id="returns", marks=SLOW),
        pytest.param((GAIN, GAIN.replace("rows", "flat[:, mine[::-1]].ravel()")), id="reversed"),
    ],
)
def test_rows_are_weighed_with_others(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str]
) -> None:
    path = planted(tmp_path, "plain_vector.py", change)
    code, told, _ = run(rnncheck, "--select", "LS707", path)
    assert (code, failed(told)) == (ExitCode.FAILED, ["LS707"])
    (found,) = (check for check in told["checks"] if check["outcome"] == "failed")
    said = found["findings"][0]["message"]
    # Of one minibatch after the other each step may have another one's values.
    assert "of other rows, not its own" in said or said.endswith("the one in another row")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="their own", marks=SLOW),
        pytest.param(((GAIN, GAIN + NORMAL),), id="normalised"),
        pytest.param(((GAIN, BY_RANK),), id="ranks", marks=SLOW),
        pytest.param(((GAIN, OTHERS_ALONE),), id="against the others", marks=SLOW),
        pytest.param(((GAIN, BESIDE),), id="against all", marks=SLOW),
    ],
)
def test_rows_are_weighed_with_their_own(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...]
) -> None:
    path = planted(tmp_path, "plain_vector.py", *changes)
    code, told, _ = run(rnncheck, "--select", "LS707", path)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
