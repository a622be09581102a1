"""RP509: how much it weighs that actions are others than were taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode

LABELS = Path(__file__).parents[2] / "fixtures" / "training" / "rp509_labels_paid_for.yaml"


@pytest.mark.parametrize(
    ("factory", "severity", "code"),
    [
        ("taken:a_few_corrected", "warning", ExitCode.VERIFIED),
        ("taken:labelled", "error", ExitCode.FAILED),
    ],
)
def test_a_few_may_be_corrections(rnncheck: Any, factory: str, severity: str, code: int) -> None:
    """Of a few the loop may have taken others, since these were not allowed."""
    asked = (
        "--select",
        "RP509",
        "--report",
        "json",
        "--set",
        f"batch.factory={factory}",
        str(LABELS),
    )
    done = rnncheck("verify", *asked)
    (check,) = json.loads(done.stdout)["checks"]
    assert (check["outcome"], check["severity"], done.returncode) == ("failed", severity, code)


FLAGGED = LABELS.with_name("vl604_target_differs_from_sequential.yaml")
SHORT = "env.transforms=[InitTracker, {use: StepCounter, max_steps: 6}]"


def test_start_flags_of_next_steps_are_copied_on_purpose(rnncheck: Any) -> None:
    """They are what LS701 asks for: TorchRL's losses read them in the pass over the next steps."""
    done = rnncheck("verify", "--select", "RP509", "--report", "json", "--set", SHORT, str(FLAGGED))
    (check,) = json.loads(done.stdout)["checks"]
    assert (check["outcome"], done.returncode) == ("passed", ExitCode.VERIFIED)
