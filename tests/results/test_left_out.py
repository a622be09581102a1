"""The guarantees of a run that left checks out."""

from __future__ import annotations

import pytest

from rnncheck.results.guarantees import GUARANTEES, judge_guarantees
from rnncheck.results.left_out import judge_asked
from rnncheck.results.model import CheckResult, GuaranteeResult, Outcome, Standing
from rnncheck.results.verdict import judge
from tests.results.test_guarantees import CODES, TRAINS, ended


def standings(
    checks: list[CheckResult], left_out: list[str]
) -> dict[str, tuple[Standing, GuaranteeResult]]:
    judged = judge_asked(checks, TRAINS, left_out, strict=False)
    return {one.name: (one.standing, one) for one in judged}


def all_but(*codes: str) -> list[CheckResult]:
    return [ended(code) for code in CODES if code not in codes]


def test_nothing_left_out_is_judged_as_ever() -> None:
    checks = all_but()
    assert judge_asked(checks, TRAINS, [], strict=False) == judge_guarantees(
        checks, TRAINS, strict=False
    )


@pytest.mark.parametrize("one", GUARANTEES, ids=lambda one: one.name)
def test_what_rests_on_a_check_that_was_left_out_is_not_asked(one: object) -> None:
    code = one.checks[-1]  # type: ignore[attr-defined]
    found = standings(all_but(code), [code])
    standing, told = found[one.name]  # type: ignore[attr-defined]
    assert standing is Standing.NOT_ASKED
    assert code in told.because and "--fast" in told.because
    assert code not in told.rests_on
    others = {name: standing for name, (standing, _) in found.items() if name != told.name}
    assert set(others.values()) == {Standing.SHOWN}


def test_it_stays_broken_by_what_was_asked() -> None:
    checks = [*all_but("BD301", "LS701"), ended("BD301", Outcome.FAILED)]
    assert standings(checks, ["LS701"])["isolation"][0] is Standing.BROKEN


def test_it_stays_open_by_what_could_not_look() -> None:
    checks = [*all_but("BD301", "LS701"), ended("BD301", Outcome.NOT_LOOKED)]
    assert standings(checks, ["LS701"])["isolation"][0] is Standing.NOT_SHOWN


def test_what_another_check_would_have_answered_costs_nothing() -> None:
    checks = [*all_but("CL401", "CL406"), ended("CL401", Outcome.NOT_LOOKED)]
    assert standings(checks, [])["memory"][0] is Standing.NOT_SHOWN
    assert standings(checks, ["CL406"])["memory"][0] is Standing.SHOWN
    judged = judge_asked(checks, TRAINS, ["CL406"], strict=False)
    assert judge(checks, strict=False, stages=TRAINS, guarantees=judged)[1] == 0


def test_checks_of_the_users_own() -> None:
    checks = [*all_but(), ended("MY001")]
    assert standings(checks, ["MY002"])["own checks"][0] is Standing.NOT_ASKED
    assert standings(checks, ["EQ205"])["own checks"][0] is Standing.SHOWN
