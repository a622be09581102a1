"""``rnncheck run``: log-probabilities of a recurrent actor that has a critic behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import ratios_script as scripts
from tests.watching.next_values_script import changed
from tests.watching.ratios_script import TOGETHER, TRUNK
from tests.watching.scripts import failed, run

SLOW = pytest.mark.slow
Changes = tuple[tuple[str, str], ...]


def ran(rnncheck: Any, folder: Path, text: str) -> tuple[int, dict[str, Any]]:
    (folder / "train.py").write_text(text)
    code, told, _ = run(rnncheck, "--select", "LS702,RP509", folder / "train.py")
    return code, told


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="recorded", marks=SLOW),
        pytest.param(TRUNK, id="recorded behind a trunk", marks=SLOW),
        pytest.param((scripts.ANEW,), id="anew along the rows"),
        pytest.param((scripts.STEP_BY_STEP,), id="anew step by step", marks=SLOW),
    ],
)
def test_log_probabilities_of_an_actor_with_a_critic(
    rnncheck: Any, tmp_path: Path, changes: Changes
) -> None:
    code, told = ran(rnncheck, tmp_path, changed(TOGETHER, *changes))
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    assert [one["outcome"] for one in told["checks"]] == ["passed", "passed"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((scripts.A_STEP_LATE,), id="a step late", marks=SLOW),
        pytest.param((*TRUNK, scripts.A_STEP_LATE), id="a step late behind a trunk", marks=SLOW),
        pytest.param((scripts.OTHER_ROWS,), id="of other rows", marks=SLOW),
        pytest.param((scripts.WITHOUT_STATES,), id="anew without states"),
    ],
)
def test_others_beside_an_actor_with_a_critic(
    rnncheck: Any, tmp_path: Path, changes: Changes
) -> None:
    code, told = ran(rnncheck, tmp_path, changed(TOGETHER, *changes))
    assert (code, failed(told)) == (ExitCode.FAILED, ["LS702"])
