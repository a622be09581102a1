"""Known findings: accepted as a whole or not at all, until a date."""

from __future__ import annotations

import datetime

import pytest

from rnncheck.checks.engine.accept import Acceptances
from rnncheck.errors import SpecError
from rnncheck.results.model import (
    CheckResult,
    Finding,
    GuaranteeResult,
    Outcome,
    Severity,
    Source,
    Stage,
    Standing,
)
from rnncheck.spec.load import spec_from_text

HEAD = "schema: 1\nname: x\nenv: E\npolicy: [M]\n"
TODAY = datetime.date(2027, 6, 30)


def acceptances(*entries: str) -> Acceptances:
    listed = ", ".join(f"{{{entry}}}" for entry in entries)
    return Acceptances(spec_from_text(f"{HEAD}verify: {{accept: [{listed}]}}\n", "s.yaml"), TODAY)


def failed(*messages: str, code: str = "LS701") -> CheckResult:
    source = Source("own.py", 3, kind="python", name="make_loss")
    found = tuple(
        Finding(code, Stage.LOSS, text, key="td_error", source=source) for text in messages
    )
    return CheckResult(code, "n", Severity.ERROR, Stage.LOSS, Outcome.FAILED, findings=found)


def entry(where: str = "''", until: str = "2027-06-30", code: str = "LS701") -> str:
    return f"code: {code}, where: {where}, reason: known, until: {until}"


@pytest.mark.parametrize("where", ["''", "td_error", "make_loss", "own.py", "crosses", "loss"])
def test_every_finding_that_matches_is_accepted(where: str) -> None:
    mine = acceptances(entry(where))
    result = mine.applied(failed("a loss crosses a boundary"))
    assert result.accepted == "known (until 2027-06-30)"
    assert not result.fails(strict=True)
    assert not list(mine.leftovers())


def test_one_finding_more_and_the_check_fails() -> None:
    mine = acceptances(entry("crosses"))
    result = mine.applied(failed("it crosses", "another one"))
    assert result.fails(strict=False)
    assert not list(mine.leftovers())  # it covers one of them: it is in use


def test_two_may_cover_a_check_together() -> None:
    mine = acceptances(entry("crosses"), entry("another"))
    assert mine.applied(failed("it crosses", "another one")).accepted


def test_after_its_last_day_it_is_none() -> None:
    mine = acceptances(entry(until="2027-06-29"))
    assert mine.applied(failed("it crosses")).fails(strict=False)
    (left,) = mine.leftovers()
    assert "expired on 2027-06-29, its finding counts again" in left.problem
    assert (left.place.line, left.place.column) == (5, 19)


def test_what_matches_nothing_is_told_where_its_check_ran() -> None:
    mine = acceptances(entry("elsewhere"), entry(code="BD301"), entry(code="BD302"))
    assert mine.applied(failed("it crosses")).fails(strict=False)
    mine.applied(CheckResult("BD301", "n", Severity.ERROR, Stage.POLICY, Outcome.PASSED))
    found = [(left.name, left.problem) for left in mine.leftovers()]
    assert [name for name, _ in found] == [
        "acceptance of LS701 where 'elsewhere'",
        "acceptance of BD301",
    ]
    assert "passed" in found[1][1]


def guarantee(standing: Standing, name: str = "targets") -> GuaranteeResult:
    return GuaranteeResult(name, "the targets are right", standing, "VL604: too little data")


def unshown(name: str = "targets", until: str = "2027-06-30") -> str:
    return f"guarantee: {name}, reason: no critic, until: {until}"


def test_a_guarantee_that_cannot_be_shown_is_accepted_until_its_day() -> None:
    mine = acceptances(unshown())
    found = mine.standing(guarantee(Standing.NOT_SHOWN))
    assert (found.accepted, found.lacking) == ("no critic (until 2027-06-30)", False)
    assert not list(mine.leftovers())
    late = acceptances(unshown(until="2027-06-29"))
    assert late.standing(guarantee(Standing.NOT_SHOWN)).lacking
    (left,) = late.leftovers()
    assert "it counts again (no critic)" in left.problem


@pytest.mark.parametrize("standing", [Standing.SHOWN, Standing.BROKEN, Standing.NOT_ASKED])
def test_what_is_shown_or_broken_is_not_accepted(standing: Standing) -> None:
    mine = acceptances(unshown(), unshown("memory"))
    assert mine.standing(guarantee(standing)) == guarantee(standing)
    (left,) = mine.leftovers()
    assert left.name == "acceptance of targets" and "is not needed" in left.problem


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("guarantee: target, reason: x, until: 2027-06-30", "no guarantee is called 'target'"),
        ("reason: x, until: 2027-06-30", "this names nothing"),
        ("code: LS701, guarantee: data, reason: x, until: 2027-06-30", "this names two things"),
    ],
)
def test_an_acceptance_names_one_thing_that_there_is(given: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        acceptances(given)
    assert said in str(caught.value)
    assert str(caught.value.place).startswith("s.yaml:5:")


def test_an_unknown_code_is_refused_in_its_line() -> None:
    with pytest.raises(SpecError) as caught:
        acceptances(entry(code="LS799"))
    assert str(caught.value.place) == "s.yaml:5:20"
    assert "did you mean" in caught.value.hint
