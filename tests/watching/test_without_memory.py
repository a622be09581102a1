"""``rnncheck run``: a loss in which nothing that carries state runs, beside one that trains it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.adapted_script import (
    ADAPTED,
    ANEW,
    SHUFFLED,
    WITH_A_CELL,
    WITHOUT_MEMORY,
    Changes,
)
from tests.watching.scripts import judged, run, written

ORDER = "RP501,RP502,RP506,RP507"


@pytest.mark.slow
def test_it_may_train_on_single_steps(rnncheck: Any, tmp_path: Path) -> None:
    code, told, _ = run(rnncheck, written(tmp_path, ADAPTED))
    assert code == ExitCode.VERIFIED
    standing = {one["name"]: one["standing"] for one in told["guarantees"]}
    assert standing["data"] == standing["targets"] == standing["isolation"] == "shown"


@pytest.mark.parametrize(
    ("changes", "codes", "named"),
    [
        pytest.param(SHUFFLED, ORDER, "RP502", id="the memory's rows are shuffled"),
        pytest.param(
            ANEW,
            "RP502,LS704",
            "LS704",
            id="the memory runs over single steps",
        ),
    ],
)
def test_what_runs_the_memory_may_not(
    rnncheck: Any, tmp_path: Path, changes: Changes, codes: str, named: str
) -> None:
    code, names = judged(rnncheck, tmp_path, codes, ADAPTED, *changes)
    assert (code, named in names) == (ExitCode.FAILED, True), names


@pytest.mark.slow
def test_a_memory_that_nobody_knows_is_not_left_out(rnncheck: Any, tmp_path: Path) -> None:
    """Of a cell that is written out in a critic of the estimator's: what it should give, nobody
    can tell."""
    found = judged(rnncheck, tmp_path, "VL604", ADAPTED, *WITHOUT_MEMORY)
    assert found == (ExitCode.VERIFIED, [])
    assert judged(rnncheck, tmp_path, "VL604", ADAPTED, *WITH_A_CELL) == (ExitCode.NOT_SHOWN, [])
