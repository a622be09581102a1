"""A script with several losses: what is asked of each, and what its checks conclude together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Rule
from rnncheck.results.model import Outcome, Severity, Stage

Conclusion = dict[str, Any]  # outcome and all that goes with it, as fields of a CheckResult
# What counts of several: a check passed where it passed for each loss that it applies to. A warning
# breaks nothing, and what could not be looked at beside it does not pass either.
_WEIGHTS = (
    *(Outcome.FAILED, Outcome.ERROR, Outcome.NOT_LOOKED, Outcome.DEFERRED, Outcome.PASSED),
    Outcome.NOT_APPLICABLE,
)
_WARNED = _WEIGHTS.index(Outcome.PASSED) - 0.5
_OF_BATCHES = (Stage.REPLAY, Stage.LOSS)


def evidence_for(rule: Rule, first: Evidence) -> list[Evidence]:
    """Whom a rule is asked of: what stands before training is the same for every loss."""
    if rule.stage not in (*_OF_BATCHES, Stage.ADVANTAGE):
        return [first]
    others = first.others
    if rule.stage in _OF_BATCHES:  # the others are an estimator alone
        others = [one for one in others if one.pipeline.spec.loss is not None]
    return [first, *others]


def together(rule: Rule, ended: Sequence[tuple[str, Conclusion]]) -> Conclusion:
    """One conclusion of those by loss: the weightiest, with every loss that it holds for."""
    if len(ended) == 1:
        return ended[0][1]
    _, first = min(ended, key=lambda one: _weight(rule, one[1]))
    alike = [(name, one) for name, one in ended if one["outcome"] is first["outcome"]]
    return {
        "outcome": first["outcome"],
        "severity": first.get("severity", rule.severity),
        "reason": "; ".join(_reasons(alike)),
        "compared": sum(one.get("compared", 0) for _, one in ended),
        "findings": tuple(found for _, one in alike for found in one.get("findings", ())),
        "deferred_to": tuple(
            dict.fromkeys(code for _, one in alike for code in one.get("deferred_to", ()))
        ),
    }


def _weight(rule: Rule, ended: Conclusion) -> float:
    failed = ended["outcome"] is Outcome.FAILED
    warns = failed and ended.get("severity", rule.severity) is Severity.WARNING
    return _WARNED if warns else _WEIGHTS.index(ended["outcome"])


def _reasons(alike: Iterable[tuple[str, Conclusion]]) -> list[str]:
    told = [(name, one["reason"]) for name, one in alike if one["reason"]]
    if len({reason for _, reason in told}) == 1 and len(told) > 1:
        return [told[0][1]]
    return [said_of(name, reason) for name, reason in told]


def said_of(loss: str, said: str) -> str:
    """What is said of one of several losses."""
    return f"{loss}: {said}" if loss else said
