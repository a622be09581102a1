"""A memory of tokens: integers are drawn from the env's spec where what occurs cannot tell."""

from __future__ import annotations

import pytest

from rnncheck.results.model import Outcome
from tests.checks.verified import FIXTURES, failed, result, verified

TOKENS = FIXTURES / "pipelines" / "tokens.yaml"


@pytest.mark.parametrize("silent", ["true", "false"])
def test_a_memory_of_tokens_lives(silent: str) -> None:
    run = verified(TOKENS, ("BD", "GR"), f"env.silent={silent}")
    assert not failed(run)
    assert result(run, "BD306").outcome is Outcome.PASSED


@pytest.mark.parametrize("silent", ["true", "false"])
def test_a_memory_that_is_not_read_is_dead(silent: str) -> None:
    changes = (f"env.silent={silent}", "policy.modules.0.forgets=true")
    assert failed(verified(TOKENS, ("BD306",), *changes)) == {"BD306"}


@pytest.mark.parametrize("clock", ["true", "false"])  # a float beside the tokens, or none
def test_a_gradient_through_tokens_stays_inside_its_segment(clock: str) -> None:
    changes = ("env.silent=false", f"policy.modules.0.clock={clock}")
    run = verified(TOKENS, ("BD",), *changes)
    assert not failed(run)
    assert result(run, "BD303").outcome is Outcome.PASSED
    run = verified(TOKENS, ("BD",), *changes, "policy.modules.0.straight_through=true")
    assert failed(run) == {"BD303"}
    (finding,) = run.findings
    assert "moves with the tokens of another" in finding.message
    assert finding.measured is not None and finding.measured > finding.bound
