"""``rnncheck run``: what lines make ahead of a loss, where only the later ones can be repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.counted_script import COUNTED, FAULTS
from tests.watching.next_values_script import changed
from tests.watching.scripts import failed, run


def ran(rnncheck: Any, folder: Path, text: str, *codes: str) -> tuple[int, dict[str, Any]]:
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, told


def test_the_later_lines_are_judged(rnncheck: Any, tmp_path: Path) -> None:
    ended, told = ran(rnncheck, tmp_path, COUNTED, "VL601", "VL603")
    assert (ended, failed(told)) == (ExitCode.VERIFIED, [])
    said = next(one["detail"] for one in told["stages"] if one["stage"] == "advantage")
    assert said.startswith("your lines ahead of the loss (train.py:")


@pytest.mark.parametrize(
    "code",
    ["VL601", *(pytest.param(one, marks=pytest.mark.slow) for one in ("VL603", "VL604"))],
)
def test_their_faults_are_named(rnncheck: Any, tmp_path: Path, code: str) -> None:
    ended, told = ran(rnncheck, tmp_path, changed(COUNTED, FAULTS[code]), code)
    assert (ended, failed(told)) == (ExitCode.FAILED, [code])
