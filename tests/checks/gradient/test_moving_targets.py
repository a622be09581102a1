"""GR804: a loss that rises although it is trained, of its gradient or of what moves beside it."""

from __future__ import annotations

import pytest

from rnncheck.results.model import Outcome
from tests.checks.verified import FIXTURES, failed, result, verified

OPPOSITE = FIXTURES / "training" / "gr804_does_not_learn.yaml"


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        pytest.param("MovingWeight", Outcome.NOT_APPLICABLE, id="by far more than promised"),
        pytest.param("WrongSign", Outcome.FAILED, id="by as much as promised"),
        pytest.param("OneStep", Outcome.PASSED, id="not at all"),
    ],
)
def test_a_loss_that_rises_is_blamed_by_how_much(kind: str, outcome: Outcome) -> None:
    run = verified(OPPOSITE, ("GR804",), f"loss.kind={kind}")
    check = result(run, "GR804")
    assert check.outcome is outcome
    assert failed(run) == ({"GR804"} if outcome is Outcome.FAILED else set())
    if outcome is Outcome.NOT_APPLICABLE:
        assert "a target that moves with the weights" in check.reason
