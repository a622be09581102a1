"""``rnncheck run``: world models whose latent is drawn, by windows out of a flat log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.latent_script import APART, LATENT, MEAN, NOT_RESET
from tests.watching.scripts import judged

ASKED = "EQ206,LS701,RP503"
SEED = ("torch.manual_seed(0)", "torch.manual_seed(7)")
# Whether an episode was terminated stands at the first step of the next one.
LATER = (
    ("float(term), 0.0)", "0.0, 0.0)"),
    ("torch.zeros(2), 0.0, 0.0, 1.0)", "torch.zeros(2), 0.0, over, 1.0)"),
    ("def begin(seen):", "def begin(seen, over=0.0):"),
    ("begin(env.reset()[0])", "begin(env.reset()[0], float(term))"),
)


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


def test_ends_beside_what_they_led_to_are_those_of_the_step_before(
    rnncheck: Any, tmp_path: Path
) -> None:
    """The log also holds what each episode ended with, and there whether it was terminated. With
    this seed two such steps are in the batch."""
    code, found = judged(rnncheck, tmp_path, "VL603", LATENT, SEED)
    assert (code, found) == (ExitCode.VERIFIED, [])


def test_ends_that_stand_a_step_later_still_are_lost(rnncheck: Any, tmp_path: Path) -> None:
    _, found = judged(rnncheck, tmp_path, "VL603", LATENT, SEED, *LATER)
    assert found == ["VL603"]


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
