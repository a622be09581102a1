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
