"""``rnncheck run``: world models whose latent is drawn, by windows out of a flat log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.latent_script import APART, LATENT, MEAN, NOT_RESET
from tests.watching.scripts import judged

ASKED = "EQ206,LS701,RP503"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="of windows that overlap"),
        pytest.param((APART,), id="of windows that do not", marks=pytest.mark.slow),
    ],
)
def test_a_latent_that_is_drawn_in_training_too_is_healthy(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...]
) -> None:
    """Flags of first steps beside rewards of 1 are flags."""
    assert judged(rnncheck, tmp_path, ASKED, LATENT, *changes) == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param(MEAN, "EQ206", id="drawn by acting alone"),
        pytest.param((NOT_RESET,), "LS701", id="the training pass is not reset"),
    ],
)
def test_their_faults_are_found(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], code: str
) -> None:
    assert judged(rnncheck, tmp_path, ASKED, LATENT, *changes) == (ExitCode.FAILED, [code])
