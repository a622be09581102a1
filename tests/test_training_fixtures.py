"""Every fixture of the training path against what it is for: faults get their own code, near misses
pass."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from rnncheck.checks.catalogue import builtin, entries
from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.results.collect import RunCollector
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Outcome, Run, Severity
from rnncheck.results.verdict import judge
from rnncheck.spec.load import load_spec

TRAINING = Path(__file__).parent.parent / "fixtures" / "training"
COVERED = ("RP", "VL", "LS", "GR")  # the families whose faults are here

# Pipelines without a fault; most are one line away from some fault below.
HEALTHY = [
    "nested_rows",
    "own_cell",
    "own_gae",
    "pendulum_ddpg",
    "ppo_flat",
    "ppo_normalised",
    "ppo_old_probabilities",
    "ppo_rows",
    "ppo_slices",
    "ppo_two_memories",
    "q_burn_in",
    "q_burn_in_by_hand",
    "q_conservative",
    "q_episodes_alike",
    "q_flat",
    "q_next_reward",
    "q_normalised",
    "q_padded",
    "q_ring",
    "q_rows",
    "q_rows_flags",
    "q_safe_root",
    "q_slices",
]

# The codes that a broken fixture must be given: its own, and those under which the same fault is
# seen elsewhere (a loss without memory gives the recurrent weights no gradient, too); then the near
# miss.
FAULTS: dict[str, tuple[set[str], str]] = {
    "rp501_slice_start_unmarked": ({"RP501"}, "q_slices"),
    "rp502_steps_not_consecutive": ({"RP502", "LS702"}, "ppo_slices"),
    "rp503_keys_lost": ({"RP503", "VL604"}, "q_rows"),
    "rp504_stored_state_wrong": ({"RP504"}, "q_rows"),
    "rp505_padding_taken_for_data": ({"RP505"}, "q_padded"),
    "rp506_batch_crosses_episodes": ({"RP506", "RP503"}, "q_rows_flags"),
    "rp507_replayed_outputs_differ": ({"RP507"}, "q_normalised"),
    "rp508_burn_in_does_nothing": ({"RP508"}, "q_burn_in"),
    "vl601_target_crosses_boundary": ({"VL601", "VL602"}, "own_gae"),
    "vl602_next_value_inconsistent": ({"VL602", "VL604"}, "own_gae"),
    "vl603_bootstraps_over_the_end": ({"VL603"}, "own_gae"),
    "vl604_target_differs_from_sequential": ({"VL604"}, "q_rows"),
    "vl605_estimator_cannot_run": ({"VL605"}, "ppo_flat"),
    "ls701_loss_crosses_boundary": ({"LS701"}, "q_slices"),
    "ls702_ratio_not_one": ({"LS702"}, "ppo_old_probabilities"),
    "ls703_loss_ignores_memory": ({"LS703", "GR801", "GR803"}, "q_rows"),
    "ls704_loss_differs_per_slice": ({"LS704"}, "q_slices"),
    "ls705_batch_changed_by_loss": ({"LS705"}, "q_rows"),
    "ls706_loss_cannot_run": ({"LS706"}, "ppo_flat"),
    "gr801_graph_cut": ({"GR801", "GR805"}, "own_cell"),
    "gr802_not_finite": ({"GR802", "GR804"}, "q_safe_root"),
    "gr803_parameter_without_gradient": ({"GR803"}, "q_rows"),
    "gr804_does_not_learn": ({"GR804"}, "q_rows"),
    "gr805_short_horizon": ({"GR805"}, "q_rows"),
}
# The same faults elsewhere, in a loss or estimator of one's own.
FAULTS_ELSEWHERE: dict[str, tuple[set[str], str]] = {
    "rp506_ends_unseen": ({"RP506"}, "q_slices"),
    "rp506_over_the_cursor": ({"RP506"}, "q_ring"),
    "vl603_loss_over_the_end": ({"VL603"}, "q_slices"),
    "vl603_next_episode": ({"VL601", "VL603"}, "own_gae"),
    "vl604_from_zero": ({"VL604"}, "q_slices"),
}
ALL_FAULTS = FAULTS | FAULTS_ELSEWHERE
WARNINGS = [
    "rp508_burn_in_does_nothing",
    "ls705_batch_changed_by_loss",
    "gr804_does_not_learn",
    "gr805_short_horizon",
]
# Found by a check that has errors to tell as well.
LESSER = ["rp506_ends_unseen"]


@cache
def verified(name: str) -> Run:
    """The run of ``rnncheck verify`` on a fixture with the checks of the training path."""
    spec, collector = load_spec(TRAINING / f"{name}.yaml"), RunCollector()
    for event in verify_events(spec, select_rules(spec, COVERED)):
        collector(event)
    return collector.finish(interrupted=False, seconds=0.0)


def with_outcome(run: Run, outcome: Outcome) -> set[str]:
    return {check.code for check in run.checks if check.outcome is outcome}


def code_of(name: str) -> str:
    return name.partition("_")[0].upper()


def test_every_fixture_has_its_row() -> None:
    assert {path.stem for path in TRAINING.glob("*.yaml")} == {*HEALTHY, *ALL_FAULTS}
    assert {near for _, near in ALL_FAULTS.values()} <= set(HEALTHY)


def test_every_check_has_a_fault() -> None:
    covered = [entry for entry in entries() if entry.code[:2] in COVERED]
    slugs = {f"{entry.code}-{entry.name}".lower().replace("-", "_") for entry in covered}
    assert slugs == set(FAULTS)
    assert {n for n in FAULTS if builtin().find(code_of(n)).severity is Severity.WARNING} == set(
        WARNINGS
    )


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_pipeline_passes(name: str) -> None:
    run = verified(name)
    assert (run.exit_code, with_outcome(run, Outcome.FAILED)) == (ExitCode.VERIFIED, set())
    assert not with_outcome(run, Outcome.ERROR)


@pytest.mark.parametrize("name", ALL_FAULTS)
def test_a_broken_pipeline_is_named_by_its_own_code(name: str) -> None:
    run = verified(name)
    assert with_outcome(run, Outcome.FAILED) == ALL_FAULTS[name][0]
    assert run.exit_code == (ExitCode.VERIFIED if name in (*WARNINGS, *LESSER) else ExitCode.FAILED)
    assert not with_outcome(run, Outcome.ERROR)


@pytest.mark.parametrize("name", ALL_FAULTS)
def test_the_check_can_tell_and_passes_the_near_miss(name: str) -> None:
    (own,) = [c for c in verified(ALL_FAULTS[name][1]).checks if c.code == code_of(name)]
    assert own.outcome is Outcome.PASSED, own.reason


@pytest.mark.parametrize("name", ALL_FAULTS)
def test_a_finding_says_all_that_it_should(name: str) -> None:
    own = [f for f in verified(name).findings if f.code == code_of(name)]
    assert own
    for finding in own:
        assert finding.message and finding.quantity and finding.cause and finding.fix
        assert finding.bound_formula
        assert finding.measured == finding.measured  # a number, not NaN
        assert finding.source is not None
        assert finding.source.line > 0


@pytest.mark.parametrize("name", [*WARNINGS, *LESSER])
def test_a_warning_fails_a_strict_run(name: str) -> None:
    run = verified(name)
    assert judge(run.checks, strict=True, stages=run.stages)[1] == ExitCode.FAILED
