"""``rnncheck run``: advantages that are normalised over the batch, beside what really leaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import normalised_script as scripts
from tests.watching.next_values_script import changed
from tests.watching.normalised_script import MASKED, OVER_THE_BATCH
from tests.watching.scripts import failed, run

SLOW = pytest.mark.slow


def ran(rnncheck: Any, folder: Path, text: str, codes: str) -> tuple[int, list[str]]:
    (folder / "train.py").write_text(text)
    code, told, _ = run(rnncheck, "--select", codes, folder / "train.py")
    return code, failed(told)


def test_a_statistic_of_the_batch_is_no_leak(rnncheck: Any, tmp_path: Path) -> None:
    found = ran(rnncheck, tmp_path, OVER_THE_BATCH, "LS701,LS704")
    assert found == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_a_segment_of_one_step_has_no_statistic(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(OVER_THE_BATCH, *scripts.ONE_STEP_LEFT)
    assert ran(rnncheck, tmp_path, text, "LS701,LS704") == (ExitCode.VERIFIED, [])
    text = changed(text, scripts.FROM_OTHER_ROWS)
    assert ran(rnncheck, tmp_path, text, "LS701,LS704") == (ExitCode.FAILED, ["LS701"])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(scripts.BY_PLACE, id="rows count by their place"),
        pytest.param(scripts.FROM_OTHER_ROWS, id="rows reach the next ones", marks=SLOW),
        pytest.param(scripts.OVER_THE_ENDS, id="returns run on", marks=SLOW),
    ],
)
def test_rows_leak_beside_a_statistic(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str]
) -> None:
    """LS704 leaves all of them to LS701: the statistic couples the rows, whatever else does."""
    text = changed(OVER_THE_BATCH, change)
    assert ran(rnncheck, tmp_path, text, "LS701,LS704") == (ExitCode.FAILED, ["LS701"])


def test_a_statistic_leaves_the_padding_out(rnncheck: Any, tmp_path: Path) -> None:
    assert ran(rnncheck, tmp_path, MASKED, "RP505") == (ExitCode.VERIFIED, [])


def test_padding_leaks_through_a_statistic(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(MASKED, scripts.PADDING_COUNTED)
    assert ran(rnncheck, tmp_path, text, "RP505") == (ExitCode.FAILED, ["RP505"])
