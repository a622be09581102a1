"""``rnncheck run``: updates on pieces of a rollout, in an env of few places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, judged, run, written
from tests.watching.subsequences_script import (
    COUNTED,
    CUT,
    EPOCHS,
    FROM_ZEROS,
    NO_RESET,
    PADDED,
    RUNS_ON,
    SCALED,
    STATE_BEHIND,
    STEPPED,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(STEPPED, id="stepped", marks=pytest.mark.slow),
        pytest.param(PADDED, id="padded"),
    ],
)
def test_a_healthy_one_shows_all(rnncheck: Any, tmp_path: Path, text: str) -> None:
    code, told, _ = run(rnncheck, written(tmp_path, text))
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    assert {one["standing"] for one in told["guarantees"]} == {"shown"}


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("text", "change", "code"),
    [
        pytest.param(STEPPED, NO_RESET, "BD301", id="stepped, never reset", marks=pytest.mark.slow),
        pytest.param(STEPPED, CUT, "GR801", id="stepped, cut at every step"),
        pytest.param(PADDED, FROM_ZEROS, "RP504", id="padded, from zeros"),
        pytest.param(EPOCHS, RUNS_ON, "BD301", id="epochs, never reset", marks=pytest.mark.slow),
        pytest.param(PADDED, COUNTED, "RP505", id="padding counted in a minibatch"),
        pytest.param(PADDED, STATE_BEHIND, "RP504", id="states behind their steps"),
    ],
)
def test_a_fault_is_named(
    rnncheck: Any, tmp_path: Path, text: str, change: tuple[str, str], code: str
) -> None:
    assert judged(rnncheck, tmp_path, code, text, change) == (ExitCode.FAILED, [code])


def test_padding_that_scales_a_loss_is_left_out(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, "RP505", PADDED, SCALED) == (ExitCode.VERIFIED, [])


def test_epochs_over_one_pass_are_one(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, "BD301", EPOCHS) == (ExitCode.VERIFIED, [])
