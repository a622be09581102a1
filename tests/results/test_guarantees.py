"""How the guarantees stand, from the ends of checks."""

from __future__ import annotations

import pytest

from rnncheck.checks.catalogue import entries
from rnncheck.results.guarantees import GUARANTEES, judge_guarantees, names
from rnncheck.results.model import (
    CheckResult,
    GuaranteeResult,
    Outcome,
    Severity,
    Stage,
    StageResult,
    Standing,
)

TRAINS = tuple(StageResult(stage, Outcome.PASSED) for stage in Stage)
ACTS = tuple(
    StageResult(
        stage,
        Outcome.PASSED
        if stage in (Stage.ENV, Stage.POLICY, Stage.COLLECT)
        else Outcome.NOT_APPLICABLE,
    )
    for stage in Stage
)
WARNINGS = {entry.code for entry in entries() if entry.severity is Severity.WARNING}
CODES = [entry.code for entry in entries()]
ERRORS = [code for code in CODES if code not in WARNINGS]


def ended(code: str, outcome: Outcome = Outcome.PASSED, **more: object) -> CheckResult:
    severity = Severity.WARNING if code in WARNINGS else Severity.ERROR
    reason = "" if outcome is Outcome.PASSED else f"why {code}"
    fields: dict[str, object] = {"compared": 3, "reason": reason, **more}
    return CheckResult(code, "n", severity, Stage.POLICY, outcome, **fields)  # type: ignore[arg-type]


def judged(
    *changed: CheckResult, stages: tuple[StageResult, ...] = TRAINS
) -> list[GuaranteeResult]:
    """All checks passed but for these."""
    others = {one.code: one for one in changed}
    checks = [others.get(code) or ended(code) for code in CODES]
    own = [one for one in changed if one.code not in CODES]
    return list(judge_guarantees([*checks, *own], stages, strict=False))


def standings(found: list[GuaranteeResult]) -> dict[str, Standing]:
    return {one.name: one.standing for one in found if one.standing is not Standing.SHOWN}


def owner(code: str) -> str:
    (found,) = [one.name for one in GUARANTEES if code in one.checks]
    return found


def test_every_check_belongs_to_one_guarantee() -> None:
    assert sorted(code for one in GUARANTEES for code in one.checks) == sorted(CODES)


def test_needs_and_covers_name_checks_of_the_guarantee() -> None:
    for one in GUARANTEES:
        for code in (code for need in one.needs for code in need.codes):
            assert code in one.checks
        for code, instead in one.covered.items():
            assert code in one.checks and set(instead) <= set(CODES)


def test_all_is_shown_where_all_passed() -> None:
    found = judged()
    assert standings(found) == {}
    assert [one.name for one in found] == names()
    assert all(one.compared == 3 * len(one.rests_on) for one in found)


def test_without_a_training_path_what_it_would_show_is_not_asked() -> None:
    asked = standings(judged(stages=ACTS))
    assert asked == {"targets": Standing.NOT_ASKED, "learning": Standing.NOT_ASKED}


@pytest.mark.parametrize("code", CODES)
def test_a_failed_check_breaks_its_guarantee_alone(code: str) -> None:
    found = standings(judged(ended(code, Outcome.FAILED)))
    assert found == ({} if code in WARNINGS else {owner(code): Standing.BROKEN})


@pytest.mark.parametrize("code", ERRORS)
@pytest.mark.parametrize("outcome", [Outcome.NOT_LOOKED, Outcome.ERROR])
def test_what_could_not_be_looked_at_costs_its_guarantee(code: str, outcome: Outcome) -> None:
    (guarantee,) = [one for one in GUARANTEES if code in one.checks]
    instead = guarantee.covered.get(code, ())
    alone = [ended(other, Outcome.NOT_APPLICABLE) for other in instead]
    found = judged(ended(code, outcome), *alone)
    assert standings(found)[guarantee.name] is Standing.NOT_SHOWN
    (one,) = [one for one in found if one.name == guarantee.name]
    assert f"{code}: why {code}" in one.because and one.lacking


def test_what_another_check_answered_costs_nothing() -> None:
    assert standings(judged(ended("CL404", Outcome.NOT_LOOKED))) == {}


def test_a_warning_that_could_not_look_costs_nothing_but_where_it_is_alone() -> None:
    assert standings(judged(ended("GR805", Outcome.NOT_LOOKED))) == {}
    others = [ended(code, Outcome.NOT_APPLICABLE) for code in ("PR901", "PR903")]
    alone = judged(ended("PR902", Outcome.NOT_LOOKED), *others)
    assert standings(alone) == {"precision": Standing.NOT_SHOWN}


@pytest.mark.parametrize(
    ("to", "standing"),
    [
        (ended("VL601", Outcome.FAILED), Standing.NOT_SHOWN),
        (ended("VL601", Outcome.FAILED, accepted="known"), Standing.SHOWN),
    ],
)
def test_a_deferral_costs_what_the_other_finding_costs(to: CheckResult, standing: Standing) -> None:
    deferred = ended("VL604", Outcome.DEFERRED, deferred_to=("VL601",))
    found = {one.name: one.standing for one in judged(deferred, to)}
    assert found["targets"] is standing


def test_the_least_must_have_been_compared() -> None:
    absent = [ended(code, Outcome.NOT_APPLICABLE) for code in ("BD301", "LS701")]
    assert standings(judged(*absent)) == {}  # it cannot happen here
    deferred = ended("BD302", Outcome.DEFERRED, deferred_to=("WR105",))
    unasked = ended("CL403", Outcome.DEFERRED, deferred_to=("WR105",))
    found = judged(deferred, unasked, ended("WR105", Outcome.FAILED))
    (memory,) = [one for one in found if one.name == "memory"]
    assert memory.standing is Standing.NOT_SHOWN
    assert (
        memory.because == "BD302: why BD302 (that nothing survives a reset could not be compared)"
    )


def test_a_selection_is_judged_by_what_it_asks() -> None:
    found = judge_guarantees([ended("LS704")], TRAINS, strict=False)
    assert {one.name for one in found if one.standing is Standing.SHOWN} == {"isolation"}
    others = {one.because for one in found if one.standing is Standing.NOT_ASKED}
    assert others == {"none of its checks was asked"}


def test_checks_of_the_users_own_are_a_guarantee_of_their_own() -> None:
    assert "own checks" not in {one.name for one in judged()}
    found = judged(ended("MY001", Outcome.NOT_LOOKED))
    assert standings(found) == {"own checks": Standing.NOT_SHOWN}
