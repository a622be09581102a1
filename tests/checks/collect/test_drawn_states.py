"""A latent that is drawn at every step and carried on: stored beside the step, or lost."""

from __future__ import annotations

from pathlib import Path

import pytest

import rnncheck
from rnncheck.results.model import Outcome

SPEC = Path(__file__).parents[3] / "fixtures" / "pipelines" / "stored_latent.yaml"


@pytest.mark.parametrize(
    ("stores", "expected"), [("true", Outcome.PASSED), ("false", Outcome.FAILED)]
)
def test_a_drawn_state_must_be_stored(stores: str, expected: Outcome) -> None:
    run = rnncheck.verify(SPEC, select=["CL406"], overrides=[f"policy.stores={stores}"])
    (check,) = run.checks
    assert check.outcome is expected
    for finding in check.findings:
        assert finding.key == "next.h"
        assert finding.measured > 0
        assert "store what was drawn" in finding.fix
