"""``rnncheck run``: a value of what is observed behind the last step, by a call inside of what
collects the steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.collected_script import (
    BY_A_METHOD,
    COLLECTED,
    CUE,
    LIGHT,
    NORMALISED,
    OVER_ENDS,
    UNKNOWN,
)
from tests.watching.scripts import judged, run, written


@pytest.mark.slow
def test_what_it_gave_is_known(rnncheck: Any, tmp_path: Path) -> None:
    code, told, _ = run(rnncheck, written(tmp_path, COLLECTED))
    assert code == ExitCode.VERIFIED
    assert {one["standing"] for one in told["guarantees"]} == {"shown"}


@pytest.mark.slow
def test_it_is_kept(rnncheck: Any, tmp_path: Path) -> None:
    """The file answers as the script did."""
    script, kept = written(tmp_path, COLLECTED, *BY_A_METHOD), tmp_path / "seen.rnn"
    asked = ("--select", "LS701,VL603")
    assert run(rnncheck, *asked, "--save", kept, script)[0] == ExitCode.VERIFIED
    done = rnncheck("verify", *asked, str(kept), cwd=tmp_path)
    assert done.returncode == ExitCode.VERIFIED, done.stdout


def test_first_steps_that_move_a_statistic_of_the_batch_are_no_target(
    rnncheck: Any, tmp_path: Path
) -> None:
    """Advantages are normalised, so that a reward moves the weight of every step."""
    changes = (NORMALISED, CUE, LIGHT)
    found = judged(rnncheck, tmp_path, "VL603", COLLECTED, *changes)
    assert found == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_returns_over_the_ends_are_found(rnncheck: Any, tmp_path: Path) -> None:
    found = judged(rnncheck, tmp_path, "LS701", COLLECTED, OVER_ENDS)
    assert found == (ExitCode.FAILED, ["LS701"])


def test_a_value_of_something_else_is_told_of(rnncheck: Any, tmp_path: Path) -> None:
    code, told, _ = run(rnncheck, "--select", "LS701", written(tmp_path, COLLECTED, *UNKNOWN))
    assert code == ExitCode.NOT_SHOWN
    assert any("`last`" in one["because"] for one in told["guarantees"])
