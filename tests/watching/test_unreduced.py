"""``rnncheck run``: padded rows, and a loss that the script reduces itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, judged, run, written
from tests.watching.unreduced_script import NORMALISED, SCRIPT


def test_what_the_script_leaves_out_is_not_known(rnncheck: Any, tmp_path: Path) -> None:
    """It is no fault, and it is not shown either."""
    code, told, _ = run(rnncheck, "--select", "RP505", written(tmp_path, SCRIPT))
    assert (code, failed(told)) == (ExitCode.NOT_SHOWN, [])
    (found,) = told["checks"]
    assert found["outcome"] == "could-not-look"
    assert "one number for each step" in found["reason"]


def test_padding_that_moves_steps_of_data_is_named(rnncheck: Any, tmp_path: Path) -> None:
    found = judged(rnncheck, tmp_path, "RP505", SCRIPT, NORMALISED)
    assert found == (ExitCode.FAILED, ["RP505"])
