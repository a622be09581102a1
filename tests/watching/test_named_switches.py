"""``rnncheck run``: a training pass that a switch selects which the policy's code reads by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.named_switch_script import (
    FROM_ZEROS,
    INSIDE,
    LEFT_ON,
    NO_STARTS,
    OBJECT,
    SCRIPT,
    VARIABLE,
)
from tests.watching.scripts import judged, run, written

Changes = tuple[tuple[str, str], ...]
CODES = "EQ201,BD301,BD303,RP502,LS701,LS703,GR801"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), [], id="a global", marks=pytest.mark.slow),
        pytest.param(VARIABLE, [], id="a context variable", marks=pytest.mark.slow),
        pytest.param(OBJECT, [], id="an object"),
        pytest.param(INSIDE, [], id="inside of the loss", marks=pytest.mark.slow),
        pytest.param(LEFT_ON, [], id="left on", marks=pytest.mark.slow),
        pytest.param((NO_STARTS,), ["EQ201", "BD301", "BD303"], id="no starts"),
        pytest.param((*OBJECT, FROM_ZEROS), ["EQ201"], id="from zeros", marks=pytest.mark.slow),
    ],
)
def test_the_pass_is_the_one_of_training(
    rnncheck: Any, tmp_path: Path, changes: Changes, expected: list[str]
) -> None:
    code, found = judged(rnncheck, tmp_path, CODES, SCRIPT, *changes)
    assert (code, found) == (ExitCode.FAILED if expected else ExitCode.VERIFIED, expected)


@pytest.mark.slow
def test_what_is_kept_is_judged_alike(rnncheck: Any, tmp_path: Path) -> None:
    kept = tmp_path / "seen.rnncheck"
    run(rnncheck, "--select", CODES, "--save", kept, written(tmp_path, SCRIPT))
    done = rnncheck("verify", "--select", CODES, str(kept), cwd=tmp_path)
    assert "shown      agreement, isolation, data, learning" in done.stdout, done.stdout
