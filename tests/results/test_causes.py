"""Failed checks are grouped: one cause for one fault, two for two that have nothing in common."""

from __future__ import annotations

from graphlib import TopologicalSorter

import pytest

from rnncheck.checks.catalogue import entries
from rnncheck.results.causes import judge_causes, settle, weighed
from rnncheck.results.effects import EFFECTS, effects_of
from rnncheck.results.model import Basis, CheckResult, Outcome, Severity, Stage

# What each fault of `rnncheck selftest --all-checks` made fail in a healthy PPO (p), Q-learning on
# whole rows (q) or on slices (s), and what TorchRL's own mistakes in the broken fixtures did. The
# first code is the check that names the fault.
SEEN = {
    "p primer-missing": ["WR103", "CL401", "CL406", "LS702"],
    "p flag-late": ["WR109", "CL405", "CL406", "VL601", "LS702"],
    "p sequential-loss": ["LS703", "GR801"],
    "p recorded-state-zeroed": ["CL402", "CL404", "CL406", "LS702"],
    "p steps-shuffled": ["LS702"],
    "p advantage-over-done": ["VL603", "VL601"],
    "p recurrent-mode-while-acting": ["CL410", "WR110"],
    "p primer-wrong-key": ["WR104", "WR103", "CL401", "CL406", "LS702"],
    "p state-at-root": ["WR107", "EQ201", "BD306", "CL406", "VL604", "LS702"],
    "p gates-swapped": ["EQ201", "EQ203", "CL406", "VL604", "LS702", "PR901"],
    "p flag-inverted": ["WR109", "CL401", "CL405", "CL406", "VL601", "LS702"],
    "p state-in-attribute": ["EQ206", "BD302", "CL402", "CL406", "VL604", "LS702"],
    "p state-survives-acting": ["CL403", "VL604"],
    "q flag-late": ["WR109", "CL405", "CL406", "RP506"],
    "s slices-unmarked": ["RP501", "RP503"],
    "q primer-missing": ["WR103", "CL401", "CL406", "RP507", "VL604"],
    "q state-zeroed-in-replay": ["RP504"],
    "s steps-shuffled": ["RP502"],
    "rows, a wrong trajectory key": ["RP506", "RP503"],
    "rows, states dropped in replay": ["RP503", "VL604"],
    "rows, padding counted": ["RP505"],
    "rows, a burn-in that does nothing": ["RP508"],
    "rows, a tracker left out": ["WR102"],
    "slices, a memory that is cut": ["GR801", "GR805"],
    "q memoryless-loss": ["LS703", "GR801", "GR803"],
    "a loop's flat minibatches, in random order": ["RP502", "BD301", "BD304", "EQ201", "CL406"],
}


def failed(*codes: str, accepted: str = "", warnings: tuple[str, ...] = ()) -> list[CheckResult]:
    return [
        CheckResult(
            code,
            code.lower(),
            Severity.WARNING if code in warnings else Severity.ERROR,
            Stage.ENV,
            Outcome.FAILED,
            accepted=accepted,
        )
        for code in codes
    ]


def grouped(*codes: str, warnings: tuple[str, ...] = ()) -> dict[str, list[str]]:
    causes = judge_causes(failed(*codes, warnings=warnings), strict=False)
    return {one.code: [follower.code for follower in one.followers] for one in causes}


def test_the_table_has_each_check_once_and_goes_in_no_circle() -> None:
    known = {entry.code for entry in entries()}
    causes = [effect.code for effect in EFFECTS]
    assert len(causes) == len(set(causes))
    assert {code for effect in EFFECTS for code in (effect.code, *effect.then)} <= known
    TopologicalSorter({effect.code: effect.then for effect in EFFECTS}).prepare()
    assert all(effect.because for effect in EFFECTS)


@pytest.mark.parametrize("name", SEEN)
def test_one_fault_is_one_cause(name: str) -> None:
    first, *others = SEEN[name]
    assert {code: sorted(then) for code, then in grouped(first, *others).items()} == {
        first: sorted(others)
    }


def test_two_faults_are_two_causes() -> None:
    assert grouped("CL406", "BD301", "CL401", "WR103") == {
        "WR103": ["CL401", "CL406"],
        "BD301": [],
    }
    assert grouped("WR103", "GR802") == {"WR103": [], "GR802": []}


def test_a_follower_is_told_with_a_cause_of_its_own_family() -> None:
    assert {"VL604"} <= effects_of("RP501") & effects_of("VL602")
    assert grouped("RP501", "VL602", "VL604") == {"RP501": [], "VL602": ["VL604"]}
    assert grouped("RP501", "VL604") == {"RP501": ["VL604"]}


def test_nothing_follows_over_a_check_that_holds() -> None:
    assert "VL603" in effects_of("WR106")  # over slices that go on past an end
    assert grouped("WR106", "VL603") == {"WR106": [], "VL603": []}
    assert grouped("WR106", "BD301", "VL603") == {"WR106": ["BD301"], "VL603": []}
    assert grouped("WR106", "BD301", "RP506", "VL603") == {"WR106": ["BD301", "RP506", "VL603"]}


def test_an_error_is_not_folded_under_a_warning() -> None:
    assert grouped("WR105", "CL403", warnings=("WR105",)) == {"CL403": [], "WR105": []}
    assert grouped("WR103", "RP504", warnings=("RP504",)) == {"WR103": ["RP504"]}


def test_what_is_accepted_explains_nothing() -> None:
    checks = [*failed("WR103", accepted="known"), *failed("CL406")]
    assert [one.code for one in judge_causes(checks, strict=False)] == ["CL406"]


def test_a_check_of_the_users_own_is_a_cause_of_its_own() -> None:
    assert grouped("own", "CL401") == {"CL401": [], "own": []}


def test_what_is_gone_with_the_repair_follows_and_what_is_left_does_not() -> None:
    checks = failed("WR103", "CL401", "CL406", "LS702", "VL604")
    causes = judge_causes(checks, strict=False)
    after = {
        "CL401": Outcome.PASSED,
        "CL406": Outcome.PASSED,
        "LS702": Outcome.NOT_APPLICABLE,
        "VL604": Outcome.FAILED,
    }
    found = settle(causes, causes[0], "a primer", after, weighed(checks, strict=False))
    assert [(one.code, one.proved) for one in found] == [("WR103", "a primer"), ("VL604", "")]
    assert [(one.code, one.basis) for one in found[0].followers] == [
        ("CL401", Basis.TESTED),
        ("CL406", Basis.TESTED),
        ("LS702", Basis.ASSUMED),
    ]


def test_what_is_left_goes_to_the_other_cause_that_explains_it() -> None:
    checks = failed("WR103", "BD301", "CL401", "CL406")
    causes = judge_causes(checks, strict=False)
    after = {"CL401": Outcome.PASSED, "CL406": Outcome.FAILED}
    found = settle(causes, causes[0], "a primer", after, weighed(checks, strict=False))
    told = {one.code: [follower.code for follower in one.followers] for one in found}
    assert told == {"WR103": ["CL401"], "BD301": ["CL406"]}


def test_effects_are_followed_on() -> None:
    assert "LS702" in effects_of("WR102")
    assert effects_of("GR804") == frozenset()
