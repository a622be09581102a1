"""``rnncheck run``: what a method that steps does behind its steps, where another one trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.collect_script import SCRIPT, UNCUT
from tests.watching.scripts import failed, run, written

ASKED = ("--select", "EQ201", "--select", "LS701", "--select", "LS703", "--select", "VL6")


@pytest.mark.slow
def test_returns_that_it_makes_are_made_again_with_the_loss(rnncheck: Any, tmp_path: Path) -> None:
    kept = tmp_path / "seen.rnncheck"
    ended, found, _ = run(rnncheck, *ASKED, "--save", kept, written(tmp_path, SCRIPT))
    assert (ended, failed(found)) == (ExitCode.VERIFIED, [])
    again = rnncheck("verify", str(kept), *ASKED)
    assert again.returncode == ExitCode.VERIFIED, again.stdout


@pytest.mark.slow
def test_a_sum_that_it_does_not_cut_is_told(rnncheck: Any, tmp_path: Path) -> None:
    ended, found, _ = run(rnncheck, *ASKED, written(tmp_path, SCRIPT, UNCUT))
    assert ended == ExitCode.FAILED
    assert {"LS701", "VL603"} & set(failed(found))
