"""Gradients that are zero but for rounding, beside those that are not."""

from __future__ import annotations

import pytest

from rnncheck.results.model import Outcome
from tests.checks.verified import FIXTURES, failed, result, verified

EVERY = FIXTURES / "broken" / "eq205_gradients_disagree.yaml"
CONSTANT = FIXTURES / "pipelines" / "rounding_gradients.yaml"


def test_rounding_is_no_disagreement() -> None:
    run = verified(CONSTANT, ("EQ",))
    assert not failed(run)
    assert result(run, "EQ205").outcome is Outcome.PASSED


def test_a_cut_graph_is_seen_beside_rounding() -> None:
    assert failed(verified(CONSTANT, ("EQ",), "policy.cut=true")) == {"EQ205"}


@pytest.mark.parametrize("early", [0, 1, 2])
def test_truncation_may_begin_with_a_short_block(early: int) -> None:
    changes = ("policy.modules.0.every=3", f"policy.modules.0.early={early}")
    run = verified(EVERY, ("EQ", "GR"), *changes)
    assert not failed(run)
    assert "cut every 3 steps" in result(run, "EQ205").reason
    assert result(run, "GR801").outcome is Outcome.PASSED


def test_a_cut_in_recurrent_mode_alone_is_left_to_the_comparison_of_the_modes() -> None:
    run = verified(EVERY, ("EQ", "GR"))
    assert failed(run) == {"EQ205"}
    assert result(run, "GR801").deferred_to == ("EQ205",)
