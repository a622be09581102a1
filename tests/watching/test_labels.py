"""``rnncheck run``: labels of a teacher, each of its own step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.labels_script import EARLIER, NUMBERS, PREDICTED, PROBABILITIES, SCRIPT
from tests.watching.scripts import judged

SLOW = pytest.mark.slow


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="their own"),
        pytest.param((PREDICTED,), (ExitCode.VERIFIED, []), id="predicted"),
        pytest.param(PROBABILITIES, (ExitCode.VERIFIED, []), id="probabilities", marks=SLOW),
        pytest.param(
            (*PROBABILITIES, EARLIER),
            (ExitCode.FAILED, ["LS707"]),
            id="probabilities of the step before",
            marks=SLOW,
        ),
        pytest.param(NUMBERS, (ExitCode.VERIFIED, []), id="numbers", marks=SLOW),
        pytest.param((EARLIER,), (ExitCode.FAILED, ["LS707"]), id="of the step before"),
        pytest.param(
            (*NUMBERS, EARLIER), (ExitCode.FAILED, ["LS707"]), id="numbers of the step before"
        ),
    ],
)
def test_labels_weigh_their_own_step(
    rnncheck: Any,
    tmp_path: Path,
    changes: tuple[tuple[str, str], ...],
    expected: tuple[int, list[str]],
) -> None:
    assert judged(rnncheck, tmp_path, "LS707", SCRIPT, *changes) == expected
