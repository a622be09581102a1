"""The guarantees of a run that left checks out: what rests on one of these was not asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from rnncheck.results.families import BY_PREFIX, prefix_of
from rnncheck.results.guarantees import GUARANTEES, NONE_ASKED, judge_guarantees
from rnncheck.results.model import CheckResult, GuaranteeResult, Outcome, StageResult, Standing


def judge_asked(
    checks: Sequence[CheckResult],
    stages: Iterable[StageResult],
    left_out: Collection[str],
    *,
    strict: bool,
) -> tuple[GuaranteeResult, ...]:
    """Every guarantee by the checks that were asked. None is shown of whose checks one was left
    out; one that could not look costs nothing where a check that answers it as well was."""
    if not left_out:
        return judge_guarantees(checks, stages, strict=strict)
    open_ = {code for code, instead in _covered().items() if instead & set(left_out)}
    told = [one for one in checks if one.outcome is not Outcome.NOT_LOOKED or one.code not in open_]
    judged = judge_guarantees(told, stages, strict=strict)
    return tuple(_unasked(one, left_out) for one in judged)


def _covered() -> dict[str, set[str]]:
    return {code: set(by) for one in GUARANTEES for code, by in one.covered.items()}


def _unasked(one: GuaranteeResult, left_out: Collection[str]) -> GuaranteeResult:
    belongs = {code for known in GUARANTEES if known.name == one.name for code in known.checks}
    if not belongs:  # that of the user's own checks
        belongs = {code for code in left_out if prefix_of(code) not in BY_PREFIX}
    missing = [code for code in left_out if code in belongs]
    whole = one.because == NONE_ASKED
    if not missing or not (whole or one.standing is Standing.SHOWN):
        return one
    because = f"{', '.join(missing)} left out by --fast"
    because = because if whole else f"not all of it: {because}"
    return replace(one, standing=Standing.NOT_ASKED, because=because)
