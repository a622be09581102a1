"""``rnncheck run``: padded rows, and a loss that the script reduces itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, judged, run, written
from tests.watching.unreduced_script import (
    IN_A_FUNCTION,
    MASK_AHEAD,
    NORMALISED,
    REDUCED,
    SCRIPT,
    TAKEN,
    UNMASKED,
    UNMASKED_THERE,
)

Change = tuple[str, str]


@pytest.mark.parametrize(
    "changes",
    [(), pytest.param((IN_A_FUNCTION, REDUCED), marks=pytest.mark.slow)],
    ids=["lines", "function"],
)
def test_the_lines_that_reduce_it_are_part_of_the_loss(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...]
) -> None:
    """No padding is weighed, and nothing about it is unknown."""
    path = written(tmp_path, SCRIPT, *changes)
    code, told, _ = run(rnncheck, "--select", "RP505,LS701,LS703,GR801", path)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    assert {check["outcome"] for check in told["checks"]} == {"passed"}


@pytest.mark.parametrize(
    "changes",
    [
        (UNMASKED,),
        pytest.param((IN_A_FUNCTION, REDUCED, UNMASKED_THERE), marks=pytest.mark.slow),
        pytest.param((NORMALISED,), marks=pytest.mark.slow),
    ],
    ids=["lines", "function", "statistics"],
)
def test_padding_that_they_weigh_is_named(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...]
) -> None:
    found = judged(rnncheck, tmp_path, "RP505", SCRIPT, *changes)
    assert found == (ExitCode.FAILED, ["RP505"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "codes"),
    [(MASK_AHEAD, "RP505,LS701,LS704,GR801"), (TAKEN, "LS701,LS704,GR801")],
    ids=["made ahead", "taken out"],
)
def test_a_mask_that_the_lines_make_ahead_of_the_loss(
    rnncheck: Any, tmp_path: Path, change: Change, codes: str
) -> None:
    """It goes with its rows where these are laid in another order."""
    path = written(tmp_path, SCRIPT, change)
    _, told, _ = run(rnncheck, "--select", codes, path)
    assert {check["outcome"] for check in told["checks"]} == {"passed"}
    found = judged(rnncheck, tmp_path, "RP505", SCRIPT, change, UNMASKED)
    assert found == (ExitCode.FAILED, ["RP505"])
