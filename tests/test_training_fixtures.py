"""Every fixture of the training path against what it is for: faults get their own code, near misses
pass."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from rnncheck.checks.catalogue import builtin, entries
from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.results.causes import causes_of
from rnncheck.results.collect import RunCollector
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Outcome, Run, Severity
from rnncheck.results.verdict import judge
from rnncheck.spec.load import load_spec
from tests.extent import EXTENTS, code_of, families_of, rows, seen_by
from tests.invariants import assert_ends_with_its_cause, assert_invariants

TRAINING = Path(__file__).parent.parent / "fixtures" / "training"
COVERED = ("RP", "VL", "LS", "GR")  # the families whose faults are here

NEAR_MISS = "_near_miss"
FIXTURES = sorted(path.stem for path in TRAINING.glob("*.yaml"))
FAULTS = [n for n in FIXTURES if re.match(r"[a-z]{2}\d{3}_", n) and not n.endswith(NEAR_MISS)]
# Pipelines without a fault; most are one line away from some fault.
HEALTHY = [name for name in FIXTURES if name not in FAULTS]
# A broken fixture is given the code that its name begins with. These are given others too, under
# which the same fault is seen elsewhere (a loss without memory gives the recurrent weights no
# gradient, too).
SEEN_ELSEWHERE: dict[str, set[str]] = {
    "rp502_steps_not_consecutive": {"LS702"},
    "rp502_rows_taken_apart": {"LS702"},
    "rp502_shuffled_in_own_loss": {"VL604"},
    "rp503_keys_lost": {"VL604"},
    "rp506_batch_crosses_episodes": {"RP503"},
    "vl601_target_crosses_boundary": {"VL602"},
    "vl602_next_value_inconsistent": {"VL604"},
    "ls703_loss_ignores_memory": {"GR801", "GR803"},
    "ls703_actor_alone": {"GR801"},
    "ls703_own_loss_sequential": {"GR801"},
    "gr801_graph_cut": {"GR805"},
    "gr802_not_finite": {"GR804"},
    "vl603_next_episode": {"VL601"},
}
# The healthy pipeline that is one step away from the fault, where it is not NAME_near_miss.
NEAR_MISSES = {
    "rp501_slice_start_unmarked": "q_slices",
    "rp502_steps_not_consecutive": "ppo_slices",
    "rp503_keys_lost": "q_rows",
    "rp504_stored_state_wrong": "q_rows",
    "rp505_padding_taken_for_data": "q_padded",
    "rp506_batch_crosses_episodes": "q_rows_flags",
    "rp507_replayed_outputs_differ": "q_normalised",
    "rp508_burn_in_does_nothing": "q_burn_in",
    "vl601_target_crosses_boundary": "own_gae",
    "vl602_next_value_inconsistent": "own_gae",
    "vl603_bootstraps_over_the_end": "own_gae",
    "vl604_target_differs_from_sequential": "q_rows",
    "vl605_estimator_cannot_run": "ppo_flat",
    "ls701_loss_crosses_boundary": "q_slices",
    "ls702_ratio_not_one": "ppo_old_probabilities",
    "ls703_loss_ignores_memory": "q_rows",
    "ls701_own_loss_joins": "own_loss",
    "ls701_own_update_joins": "own_update",
    "ls703_own_loss_sequential": "own_loss",
    "ls704_loss_differs_per_slice": "q_slices",
    "ls705_batch_changed_by_loss": "q_rows",
    "ls706_loss_cannot_run": "ppo_flat",
    "gr801_graph_cut": "own_cell",
    "gr801_step_by_step": "q_step_by_step",
    "gr802_not_finite": "q_safe_root",
    "gr803_parameter_without_gradient": "q_rows",
    "gr804_does_not_learn": "q_rows",
    "gr805_short_horizon": "q_rows",
    "gr806_parameter_not_stepped": "own_update",
    "gr803_in_a_function": "q_function",
    "rp502_rows_taken_apart": "ppo_stored_rows",
    "rp504_last_episodes_state": "own_fresh_cell",
    "rp505_mask_ignored": "q_own_mask",
    "rp506_ends_unseen": "q_slices",
    "rp506_over_the_cursor": "q_ring",
    "rp506_over_the_own_cursor": "q_own_ring",
    "vl603_loss_over_the_end": "q_slices",
    "vl603_next_episode": "own_gae",
    "vl604_from_zero": "q_slices",
    "vl604_last_alone": "q_one_pass",
    "vl604_one_pass_from_zero": "q_one_pass",
    "vl604_loss_own_step": "q_rows",
}
# Pipelines that stand beside no fault, with the families that could blame them.
BLAMED_BY = {
    "gae_averaged": ("VL",),
    "nested_rows": COVERED,
    "own_returns": ("VL",),
    "pendulum_ddpg": ("GR", "LS"),
    "ppo_normalised": ("LS",),
    "ppo_rows": COVERED,
    "ppo_two_memories": ("GR", "RP"),
    "q_burn_in_by_hand": ("RP",),
    "q_chunked": ("LS",),
    "q_conservative": ("LS",),
    "q_episodes_alike": ("LS",),
    "q_flat": ("LS",),
    "q_next_reward": ("VL",),
    "q_reshaped": ("LS",),
    "q_undiscounted": ("VL",),
}
# Further ways to a fault, of checks that other rows trip and pass: the slow tests ask them.
FURTHER = {
    "gr801_by_hand",
    "gr801_module_alone",
    "gr801_step_by_step",
    "gr803_in_a_function",
    "ls701_normalised_over_end",
    "ls701_own_loss_joins",
    "ls701_own_update_joins",
    "ls701_return_over_end",
    "ls701_rows_joined",
    "ls701_tokens_joined",
    "ls703_actor_alone",
    "ls703_own_loss_sequential",
    "ls705_same_loss_again",
    "rp502_rows_taken_apart",
    "rp502_shuffled_in_own_loss",
    "rp504_last_episodes_state",
    "rp505_behind_a_blank",
    "rp505_estimates_count_padding",
    "rp505_loss_counts_padding",
    "rp505_mask_ignored",
    "rp505_own_loss_counts_padding",
    "rp506_over_the_cursor",
    "rp506_over_the_own_cursor",
    "rp509_another_row",
    "rp509_labels_paid_for",
    "vl601_sum_over_end",
    "vl603_loss_over_the_end",
    "vl603_next_episode",
    "vl604_behind_burn_in",
    "vl604_critic_before",
    "vl604_from_zero",
    "vl604_last_alone",
    "vl604_loss_own_step",
    "vl604_one_pass_from_zero",
    "vl604_own_step",
}
# Found by a check that has errors to tell as well.
LESSER = ["rp506_ends_unseen"]


def asked_of(name: str, *, whole: bool) -> tuple[str, ...]:
    """What is selected: without ``whole`` the families of the checks that it stands beside."""
    if whole or name in FAULTS or name.endswith(NEAR_MISS):
        return families_of(name, COVERED, whole=whole)
    beside = {code_of(fault)[:2] for fault in FAULTS if near_miss_of(fault) == name}
    return tuple(sorted(beside)) or BLAMED_BY[name]


def verified(name: str, *, whole: bool = False) -> Run:
    """The run of ``rnncheck verify`` on a fixture with the checks of the training path."""
    return _verified(name, asked_of(name, whole=whole))


@cache
def _verified(name: str, families: tuple[str, ...]) -> Run:
    spec, collector = load_spec(TRAINING / f"{name}.yaml"), RunCollector()
    for event in verify_events(spec, select_rules(spec, families)):
        collector(event)
    return assert_invariants(collector.finish(interrupted=False, seconds=0.0))


def with_outcome(run: Run, outcome: Outcome) -> set[str]:
    return {check.code for check in run.checks if check.outcome is outcome}


def is_warning(name: str) -> bool:
    return builtin().find(code_of(name)).severity is Severity.WARNING


def near_miss_of(name: str) -> str:
    return NEAR_MISSES.get(name, name + NEAR_MISS)


# The near misses of those alone.
LATER = set(map(near_miss_of, FURTHER)) - set(map(near_miss_of, set(FAULTS) - FURTHER))
# What stands beside no fault, where the near misses of the same families pass.
BESIDE = BLAMED_BY.keys() - {"q_burn_in_by_hand", "q_chunked", "q_episodes_alike"}


def test_every_fault_has_its_near_miss() -> None:
    assert {near_miss_of(name) for name in FAULTS} <= set(HEALTHY)
    assert SEEN_ELSEWHERE.keys() | NEAR_MISSES.keys() <= set(FAULTS)
    assert set(HEALTHY) - set(map(near_miss_of, FAULTS)) == BLAMED_BY.keys()


def test_every_check_has_a_fault() -> None:
    covered = [entry for entry in entries() if entry.code[:2] in COVERED]
    slugs = {f"{entry.code}-{entry.name}".lower().replace("-", "_") for entry in covered}
    assert slugs <= set(FAULTS) - FURTHER
    assert set(FAULTS) > FURTHER


@pytest.mark.first(8)
@pytest.mark.parametrize("whole", EXTENTS)
@pytest.mark.parametrize("name", rows(HEALTHY, LATER | BESIDE))
def test_a_healthy_pipeline_passes(name: str, whole: bool) -> None:
    run = verified(name, whole=whole)
    assert (run.exit_code, with_outcome(run, Outcome.FAILED)) == (ExitCode.VERIFIED, set())
    assert not with_outcome(run, Outcome.ERROR)


@pytest.mark.first(12)
@pytest.mark.parametrize("whole", EXTENTS)
@pytest.mark.parametrize("name", rows(FAULTS, FURTHER))
def test_a_broken_pipeline_is_named_by_its_own_code(name: str, whole: bool) -> None:
    run, families = verified(name, whole=whole), families_of(name, COVERED, whole=whole)
    expected = seen_by({code_of(name), *SEEN_ELSEWHERE.get(name, ())}, families)
    assert with_outcome(run, Outcome.FAILED) == expected
    lesser = is_warning(name) or name in LESSER
    assert run.exit_code == (ExitCode.VERIFIED if lesser else ExitCode.FAILED)
    assert not with_outcome(run, Outcome.ERROR)


@pytest.mark.parametrize("whole", EXTENTS)
@pytest.mark.parametrize("name", rows(FAULTS, FURTHER))
def test_its_own_code_is_the_one_cause(name: str, whole: bool) -> None:
    """What is seen elsewhere is folded under it, and the last lines of the report say so."""
    run = verified(name, whole=whole)
    assert [cause.code for cause in causes_of(run)] == [code_of(name)]
    assert_ends_with_its_cause(run)


@pytest.mark.parametrize("name", rows(FAULTS, FURTHER))
def test_the_check_can_tell_and_passes_the_near_miss(name: str) -> None:
    (own,) = [c for c in verified(near_miss_of(name)).checks if c.code == code_of(name)]
    assert own.outcome is Outcome.PASSED, own.reason


@pytest.mark.parametrize("name", rows(FAULTS, FURTHER))
def test_a_finding_says_all_that_it_should(name: str) -> None:
    own = [f for f in verified(name).findings if f.code == code_of(name)]
    assert own
    for finding in own:
        assert finding.message and finding.quantity and finding.cause and finding.fix
        assert finding.bound_formula
        assert finding.measured == finding.measured  # a number, not NaN
        assert finding.source is not None
        assert finding.source.line > 0


@pytest.mark.parametrize("name", rows(filter(is_warning, FAULTS), FURTHER))
def test_a_warning_fails_a_strict_run(name: str) -> None:
    run = verified(name)
    assert judge(run.checks, strict=True, stages=run.stages)[1] == ExitCode.FAILED
