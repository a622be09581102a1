"""Repairs in the live pipeline: what they prove, and what they leave as it was."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from rnncheck.checks.engine.proving import Proof
from rnncheck.checks.engine.repairs.registry import all_repairs, repairs_for
from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.checks.engine.verification import Verification
from rnncheck.faults.registry import select_faults
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts, Plant
from rnncheck.results.causes import causes_of
from rnncheck.results.collect import RunCollector
from rnncheck.results.events import CausesFound, CheckFinished, Repairing
from rnncheck.results.model import Basis, Cause, CheckResult, Outcome, Run
from rnncheck.spec.load import load_spec
from rnncheck.spec.model import Spec

FIXTURES = Path(__file__).parent.parent.parent.parent / "fixtures"
NO_PRIMER = FIXTURES / "broken" / "wr103_missing_state_primer.yaml"
PPO = FIXTURES / "training" / "ppo_flat.yaml"
SLICES = FIXTURES / "training" / "q_slices.yaml"
ROWS = FIXTURES / "training" / "q_rows.yaml"
LONG = 300.0  # seconds that a loaded machine may need


def verified(path: Path, *codes: str) -> Run:
    spec, collector = load_spec(path), RunCollector()
    for event in verify_events(spec, select_rules(spec, codes), repair=True):
        collector(event)
    return collector.finish(interrupted=False, seconds=0.0)


def planted(*plants: Plant) -> Plant:
    """All of them, one after the other."""

    def plant(parts: Parts) -> Hooks:
        hooks = [one(parts) for one in plants]

        def chain(name: str, part: object) -> object:
            for one in hooks:
                part = getattr(one, name)(part)
            return part

        return Hooks(**{f.name: lambda part, name=f.name: chain(name, part) for f in fields(Hooks)})

    return plant


def proved(path: Path, codes: list[str], *faults: str) -> list[Cause]:
    """The causes of what fails of ``codes`` with the faults planted, their fixes tried."""
    spec = load_spec(path)
    faulty = planted(*(one.plant for one in select_faults(faults) if faults))
    rules = select_rules(spec, codes)

    def build(spec: Spec, repair: Plant) -> Verification:
        return Verification(spec, plant=planted(faulty, repair))

    with Verification(spec, plant=faulty) as verification:
        list(verification.build())
        checks = [e.result for e in verification.ask(rules) if isinstance(e, CheckFinished)]
    events = list(Proof(spec, rules, checks, build=build).events(LONG))
    (found,) = [event.causes for event in events if isinstance(event, CausesFound)]
    return list(found)


def gone_with(cause: Cause) -> list[str]:
    assert {one.basis for one in cause.followers} <= {Basis.TESTED}
    return sorted(one.code for one in cause.followers)


def test_a_missing_primer_is_appended_and_its_followers_are_gone() -> None:
    (cause,) = causes_of(verified(NO_PRIMER, "WR103", "CL401", "CL406"))
    assert (cause.code, gone_with(cause)) == ("WR103", ["CL401", "CL406"])
    assert cause.proved == "with the policy's primers appended to the env"


def test_nothing_is_built_again_where_nothing_failed() -> None:
    spec = load_spec(ROWS)
    assert list(Proof(spec, (), ()).events(LONG)) == []


def test_a_repair_without_time_proves_nothing_and_says_what_it_tried() -> None:
    spec = load_spec(NO_PRIMER)
    rules = select_rules(spec, ("WR103",))
    failed = [CheckResult(r.code, r.name, r.severity, r.stage, Outcome.FAILED) for r in rules]
    begun, found = Proof(spec, rules, failed, least=0.0).events(0.0)
    assert isinstance(begun, Repairing) and "primers appended" in begun.doing
    assert isinstance(found, CausesFound)
    assert [(one.code, one.proved) for one in found.causes] == [("WR103", "")]


def test_a_repair_that_raises_leaves_the_cause_as_it_was() -> None:
    spec = load_spec(NO_PRIMER)
    rules = select_rules(spec, ("WR103",))
    failed = [CheckResult(r.code, r.name, r.severity, r.stage, Outcome.FAILED) for r in rules]

    def build(spec: Spec, repair: Plant) -> Verification:
        raise CannotPlant("nothing to take hold of")

    *_, found = Proof(spec, rules, failed, build=build).events(0.0)
    assert isinstance(found, CausesFound)
    assert [(one.code, one.proved) for one in found.causes] == [("WR103", "")]


def test_every_repair_has_its_words_and_is_found_by_its_codes() -> None:
    assert len(all_repairs()) > 10
    assert len({repair.words for repair in all_repairs()}) == len(all_repairs())
    for repair in all_repairs():
        assert repair.words.startswith("with ")
        assert all(repair in repairs_for(code) for code in repair.codes)
    assert repairs_for("WR101") == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "fault", "root", "followers"),
    [
        (PPO, "primer-missing", "WR103", ["CL401", "CL406", "LS702"]),
        (PPO, "flag-late", "WR109", ["CL405", "CL406", "LS702", "VL601"]),
        (ROWS, "primer-missing", "WR103", ["CL401", "CL406", "RP507", "VL604"]),
        (SLICES, "slices-unmarked", "RP501", ["RP503"]),
    ],
)
def test_a_planted_fault_is_proved(path: Path, fault: str, root: str, followers: list[str]) -> None:
    (cause,) = proved(path, [root, *followers], fault)
    assert (cause.code, gone_with(cause)) == (root, followers)
    assert cause.proved


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "root", "followers"),
    [
        ("broken/wr104_primer_does_not_fit", "WR104", []),
        ("broken/cl405_boundary_unmarked", "CL405", ["CL406"]),
        ("training/rp502_steps_not_consecutive", "RP502", ["LS702"]),
        ("training/rp502_rows_taken_apart", "RP502", ["LS702"]),
        ("training/rp503_keys_lost", "RP503", ["VL604"]),
        ("training/rp504_stored_state_wrong", "RP504", []),
        ("training/vl604_from_zero", "VL604", []),
        ("training/vl604_target_differs_from_sequential", "VL604", []),
        ("training/ls702_ratio_not_one", "LS702", []),
        ("training/vl604_critic_before", "VL604", []),
        ("training/gr801_step_by_step", "GR801", []),
        ("broken/wr106_state_key_shared", "WR106", []),
    ],
)
def test_a_broken_fixture_is_proved(name: str, root: str, followers: list[str]) -> None:
    (cause,) = proved(FIXTURES / f"{name}.yaml", [root, *followers])
    assert (cause.code, gone_with(cause)) == (root, followers)
    assert cause.proved


@pytest.mark.slow
def test_two_faults_at_once_are_two_causes() -> None:
    found = proved(
        PPO, ["WR103", "CL401", "CL406", "BD301", "EQ201"], "primer-missing", "state-cro"
    )
    assert [one.code for one in found] == ["WR103", "BD301"]
    assert found[0].proved and not found[1].proved
    assert [one.code for one in found[0].followers] == ["CL401"]
    assert [one.code for one in found[1].followers] == ["EQ201", "CL406"]
