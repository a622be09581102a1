"""What a check concludes of several losses."""

from __future__ import annotations

from typing import Any

import pytest

from rnncheck.checks.engine import registry
from rnncheck.checks.engine.several import said_of, together
from rnncheck.results.model import Outcome, Severity

RULE = {one.code: one for one in registry.rules()}["LS701"]


def ended(outcome: Outcome, **more: Any) -> dict[str, Any]:
    return {"outcome": outcome, "reason": outcome.value, "compared": 2, **more}


@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [
        (Outcome.PASSED, Outcome.PASSED, Outcome.PASSED),
        (Outcome.PASSED, Outcome.NOT_APPLICABLE, Outcome.PASSED),
        (Outcome.PASSED, Outcome.NOT_LOOKED, Outcome.NOT_LOOKED),
        (Outcome.PASSED, Outcome.DEFERRED, Outcome.DEFERRED),
        (Outcome.DEFERRED, Outcome.NOT_LOOKED, Outcome.NOT_LOOKED),
        (Outcome.NOT_LOOKED, Outcome.ERROR, Outcome.ERROR),
        (Outcome.ERROR, Outcome.FAILED, Outcome.FAILED),
        (Outcome.NOT_APPLICABLE, Outcome.NOT_APPLICABLE, Outcome.NOT_APPLICABLE),
    ],
)
def test_it_passes_where_it_passes_for_each(
    first: Outcome, second: Outcome, whole: Outcome
) -> None:
    for pair in ((first, second), (second, first)):
        both = together(RULE, [("A", ended(pair[0])), ("B", ended(pair[1]))])
        assert both["outcome"] is whole
    assert both["compared"] == 4


def test_a_warning_of_one_does_not_pass_for_the_other() -> None:
    warned = ended(Outcome.FAILED, severity=Severity.WARNING, findings=("w",))
    both = together(RULE, [("A", warned), ("B", ended(Outcome.NOT_LOOKED))])
    assert (both["outcome"], both["reason"]) == (
        Outcome.NOT_LOOKED,
        f"B: {Outcome.NOT_LOOKED.value}",
    )
    both = together(RULE, [("A", warned), ("B", ended(Outcome.PASSED))])
    assert (both["outcome"], both["severity"]) == (Outcome.FAILED, Severity.WARNING)
    broken = ended(Outcome.FAILED, findings=("e",))
    both = together(RULE, [("A", warned), ("B", broken)])
    assert (both["severity"], both["findings"]) == (RULE.severity, ("w", "e"))


def test_one_loss_has_no_name() -> None:
    only = ended(Outcome.PASSED)
    assert together(RULE, [("", only)]) is only
    assert (said_of("", "said"), said_of("A", "said")) == ("said", "A: said")
