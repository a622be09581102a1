"""``rnncheck run``: padded rows, and a loss that the script reduces itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, judged, run, written
from tests.watching.unreduced_script import (
    IN_A_FUNCTION,
    NORMALISED,
    REDUCED,
    SCRIPT,
    UNMASKED,
    UNMASKED_THERE,
)

Change = tuple[str, str]


@pytest.mark.parametrize("changes", [(), (IN_A_FUNCTION, REDUCED)], ids=["lines", "function"])
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
    [(UNMASKED,), (IN_A_FUNCTION, REDUCED, UNMASKED_THERE), (NORMALISED,)],
    ids=["lines", "function", "statistics"],
)
def test_padding_that_they_weigh_is_named(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...]
) -> None:
    found = judged(rnncheck, tmp_path, "RP505", SCRIPT, *changes)
    assert found == (ExitCode.FAILED, ["RP505"])
