"""Gradients that are zero but for rounding, beside those that are not."""

from __future__ import annotations

from rnncheck.results.model import Outcome
from tests.checks.verified import FIXTURES, failed, result, verified

CONSTANT = FIXTURES / "pipelines" / "rounding_gradients.yaml"


def test_rounding_is_no_disagreement() -> None:
    run = verified(CONSTANT, ("EQ",))
    assert not failed(run)
    assert result(run, "EQ205").outcome is Outcome.PASSED


def test_a_cut_graph_is_seen_beside_rounding() -> None:
    assert failed(verified(CONSTANT, ("EQ",), "policy.cut=true")) == {"EQ205"}
