"""Every fixture against what it is for: the healthy specs pass whole, each broken one is named by
its own code."""

from __future__ import annotations

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

pytestmark = pytest.mark.usefixtures("forked_workers")
ROOT = Path(__file__).parent.parent
SPECS = ROOT / "fixtures" / "specs"
BROKEN = ROOT / "fixtures" / "broken"
DELIBERATE = ROOT / "fixtures" / "pipelines"  # choices that look like faults and are none
NEAR_MISS = "_near_miss"
COVERED = ("WR", "EQ", "BD", "CL", "PR")  # the families whose faults are here
WORKERS_ONLY = {"CL407"}  # asked of collectors with processes of their own

# What cannot be asked of a healthy spec, with a word of the reason that the report gives.
ONE_RNN = {"WR106": "at most one recurrent module"}
NO_RANDOM_STEPS = {"CL408": "no trajectory passes from a random policy"}
OWN_CELL = dict.fromkeys(("EQ203", "EQ207", "EQ208"), "no LSTMModule or GRUModule")
HEALTHY: dict[str, dict[str, str]] = {
    "cartpole_dqn": ONE_RNN | NO_RANDOM_STEPS,
    "cartpole_sequence": ONE_RNN | NO_RANDOM_STEPS,
    "pixel_cartpole": ONE_RNN | NO_RANDOM_STEPS,
    "pendulum_tanhnormal": ONE_RNN | NO_RANDOM_STEPS,
    "gru_actor_critic": NO_RANDOM_STEPS,
    "two_layer_lstm": ONE_RNN | NO_RANDOM_STEPS,
    "python_based_lstm": ONE_RNN | NO_RANDOM_STEPS,
    "serial_env": ONE_RNN | NO_RANDOM_STEPS,
    "parallel_env": ONE_RNN | NO_RANDOM_STEPS,
    "nested_own_cell": ONE_RNN | NO_RANDOM_STEPS | OWN_CELL,
}
# What the fast tests ask of those that take long, or differ little from another one.
IN_PART = {
    "cartpole_sequence": ("WR", "CL"),
    "pixel_cartpole": ("PR",),
    "two_layer_lstm": ("EQ", "BD"),
    "python_based_lstm": ("EQ", "BD"),
}
# What the slow tests alone ask: of each another one is asked in its stead.
LATER = {
    "parallel_env",
    "pendulum_tanhnormal",
    "pixel_cartpole",
    "serial_env",
    # choices
    "large_outputs",
    "long_warm_up",
    "meta_trial",
    "padded_own_mask",
    "pass_by_second_model",
    "random_frames_then_reset",
    "running_normalisation",
    "scan_backend",
    "sixteen_rows",
    "tokens",
    "undeclared_state",
}

# What may have nothing to say about a deliberate choice; no other check may stay silent.
IDLE = {"WR106", "EQ203", "EQ207", "EQ208", "CL404", "CL408", "PR903"}
# Each with the families that could blame it: what the fast tests ask; the slow ones ask them all.
CHOICES = {
    "dropout_in_eval": ("EQ", "CL"),
    "half_precision": ("EQ", "PR"),
    "large_outputs": ("EQ", "BD"),
    "layered_state": ("WR", "EQ"),
    "learned_start": ("WR", "BD"),
    "long_warm_up": ("CL",),
    "meta_trial": ("WR", "BD"),
    "padded_own_mask": ("CL",),
    "padded_trajectories": ("CL",),
    "parallel_scan": ("EQ", "BD"),
    "pass_by_second_model": ("EQ", "CL"),
    "pass_by_switch": ("EQ", "CL"),
    "previous_action": ("WR", "CL"),
    "random_frames_then_reset": ("CL",),
    "reads_next": ("EQ", "CL"),
    "rounding_gradients": ("EQ", "BD"),
    "running_normalisation": ("CL",),
    "scan_backend": ("CL",),  # all else compiles it anew, as the fixtures of EQ207 do
    "sixteen_rows": ("EQ", "BD"),
    "stored_latent": ("EQ", "CL"),
    "tokens": ("WR", "EQ"),
    "undeclared_state": ("WR", "CL"),
}

# A broken fixture is given the code that its name begins with. These are given others too, under
# which the same fault is seen elsewhere (values that differ between the modes differ in the replay
# of the collected data too).
SEEN_ELSEWHERE: dict[str, set[str]] = {
    "wr103_missing_state_primer": {"CL401", "CL406"},
    "wr107_state_not_under_next": {"CL406"},
    "wr109_start_flag_wrong": {"CL405", "CL406"},
    "eq201_modes_disagree": {"CL406"},
    "eq204_layout_changes_result": {"BD305"},
    "eq206_not_repeatable": {"CL406"},
    "bd301_state_crosses_reset": {"BD303", "EQ201", "CL406"},
    "bd301_absent_state_runs_on": {"BD303", "EQ201", "CL406"},
    "bd301_training_pass_runs_on": {"BD303", "EQ201", "CL406"},
    "bd302_state_survives_reset": {"WR103", "CL403"},
    "bd304_future_reaches_past": {"EQ201", "CL406"},
    "bd305_rows_mix": {"EQ201"},
    "bd307_partial_reset": {"BD301", "BD303", "EQ201", "CL406"},
    "cl401_acted_without_memory": {"CL402", "CL406"},
    "cl402_carry_broken": {"CL406"},
    "cl403_state_not_reset": {"CL406"},
    "cl405_boundary_unmarked": {"CL406"},
    "cl407_worker_differs": {"CL406"},
}
FAULTS = sorted(path.stem for path in BROKEN.glob("*.yaml") if not path.stem.endswith(NEAR_MISS))
# Further ways to a fault, of checks that other rows trip and pass: the slow tests ask them.
FURTHER = {
    "bd301_absent_state_runs_on",
    "bd301_training_pass_runs_on",
    "wr112_filter_survives_reset",
}
# Near misses which are so far from their fault that the check finds nothing to compare, and says
# so.
ASKS_OTHERS = {"cl408_random_steps_poison_state"}  # a check of it defers to another family's
NOTHING_TO_COMPARE = {
    "wr106_state_key_shared": "at most one recurrent module",  # one that two networks share
    "cl404_carry_broken_between_batches": "no batch goes on",  # each begins with a reset
}


@cache
def verified(path: Path, families: tuple[str, ...] = ()) -> Run:
    """The run of ``rnncheck verify`` on a fixture, with all checks or those of some families."""
    spec, collector = load_spec(path), RunCollector()
    for event in verify_events(spec, select_rules(spec, families)):
        collector(event)
    return assert_invariants(collector.finish(interrupted=False, seconds=0.0))


def healthy(name: str) -> Run:
    return verified(SPECS / f"{name}.yaml")


def broken(name: str, *, whole: bool = False) -> Run:
    return verified(BROKEN / f"{name}.yaml", families_of(name, COVERED, whole=whole))


def failed(run: Run) -> set[str]:
    return {check.code for check in run.checks if check.outcome is Outcome.FAILED}


def silent(run: Run) -> dict[str, str]:
    """Checks of the covered families that did not pass, with their reasons."""
    asked = [check for check in run.checks if check.code not in WORKERS_ONLY]
    covered = [check for check in asked if check.code[:2] in COVERED]
    return {c.code: c.reason for c in covered if c.outcome is not Outcome.PASSED}


def is_warning(name: str) -> bool:
    return builtin().find(code_of(name)).severity is Severity.WARNING


def exit_code_of(name: str) -> ExitCode:
    """Without recurrence there is nothing to verify; a warning fails no run."""
    if code_of(name) == "WR101":
        return ExitCode.NOT_SHOWN
    return ExitCode.VERIFIED if is_warning(name) else ExitCode.FAILED


def test_every_fixture_has_its_row() -> None:
    assert {path.stem for path in SPECS.glob("*.yaml")} == set(HEALTHY)
    assert SEEN_ELSEWHERE.keys() | NOTHING_TO_COMPARE.keys() <= set(FAULTS)
    assert all((BROKEN / f"{name}{NEAR_MISS}.yaml").is_file() for name in FAULTS)
    assert {path.stem for path in DELIBERATE.glob("*.yaml")} == set(CHOICES)


def test_every_check_has_a_fault_and_a_near_miss() -> None:
    covered = [e for e in entries() if e.code[:2] in COVERED]
    slugs = {f"{entry.code}-{entry.name}".lower().replace("-", "_") for entry in covered}
    assert slugs <= set(FAULTS) - FURTHER
    assert set(FAULTS) > FURTHER


@pytest.mark.parametrize("name", rows(HEALTHY, LATER | IN_PART.keys()))
def test_a_healthy_spec_passes_whole(name: str) -> None:
    run = healthy(name)
    assert (run.exit_code, failed(run)) == (ExitCode.VERIFIED, set())
    assert silent(run).keys() == HEALTHY[name].keys()
    for code, reason in HEALTHY[name].items():
        assert reason in silent(run)[code]


@pytest.mark.parametrize("name", rows(IN_PART, LATER))
def test_a_healthy_spec_passes_in_part(name: str) -> None:
    run = verified(SPECS / f"{name}.yaml", IN_PART[name])
    assert (run.exit_code, failed(run)) == (ExitCode.VERIFIED, set())


@pytest.mark.parametrize("whole", EXTENTS)
@pytest.mark.parametrize("name", rows(CHOICES, LATER))
def test_a_deliberate_choice_is_not_blamed(name: str, whole: bool) -> None:
    run = verified(DELIBERATE / f"{name}.yaml", () if whole else CHOICES[name])
    assert (run.exit_code, failed(run)) == (ExitCode.VERIFIED, set())
    assert silent(run).keys() <= IDLE


def test_what_is_rounding_alone_passes_with_a_remark() -> None:
    run = verified(DELIBERATE / "parallel_scan.yaml", CHOICES["parallel_scan"])
    said = {check.code: check.reason for check in run.checks}
    assert "rounding alone" in said["BD301"]


@pytest.mark.parametrize("whole", EXTENTS)
@pytest.mark.parametrize("name", rows(FAULTS, FURTHER))
def test_a_broken_pipeline_is_named_by_its_own_code(name: str, whole: bool) -> None:
    run, families = broken(name, whole=whole), families_of(name, COVERED, whole=whole)
    assert failed(run) == seen_by({code_of(name), *SEEN_ELSEWHERE.get(name, ())}, families)
    assert run.exit_code == exit_code_of(name)
    assert not [check for check in run.checks if check.outcome is Outcome.ERROR]


@pytest.mark.parametrize("whole", EXTENTS)
@pytest.mark.parametrize("name", rows(FAULTS, FURTHER))
def test_its_own_code_is_the_one_cause(name: str, whole: bool) -> None:
    """What is seen elsewhere is folded under it, and the last lines of the report say so."""
    run = broken(name, whole=whole)
    assert [cause.code for cause in causes_of(run)] == [code_of(name)]
    assert_ends_with_its_cause(run)


@pytest.mark.parametrize("whole", EXTENTS)
@pytest.mark.parametrize("name", rows(FAULTS, FURTHER))
def test_a_near_miss_passes(name: str, whole: bool) -> None:
    run = broken(name + NEAR_MISS, whole=whole)
    assert not failed(run)
    assert run.exit_code is ExitCode.VERIFIED or (name in ASKS_OTHERS and not whole)
    (own,) = [check for check in run.checks if check.code == code_of(name)]
    if name in NOTHING_TO_COMPARE:
        assert own.outcome is Outcome.NOT_APPLICABLE
        assert NOTHING_TO_COMPARE[name] in own.reason
    else:
        assert own.outcome is Outcome.PASSED, own.reason


@pytest.mark.parametrize("name", rows(FAULTS, FURTHER))
def test_a_finding_says_all_that_it_should(name: str) -> None:
    own = [f for f in broken(name).findings if f.code == code_of(name)]
    assert own
    for finding in own:
        assert finding.message and finding.quantity and finding.cause and finding.fix
        assert finding.bound_formula
        assert finding.measured == finding.measured  # a number, not NaN
        assert finding.source is not None
        assert Path(finding.source.path).stem.removesuffix(NEAR_MISS) in (name, "plain_cell")
        assert finding.source.line > 0
        assert finding.source.frame


@pytest.mark.parametrize("name", rows(filter(is_warning, FAULTS), FURTHER))
def test_a_warning_fails_a_strict_run(name: str) -> None:
    run = broken(name)
    assert judge(run.checks, strict=True, stages=run.stages)[1] == ExitCode.FAILED


def test_the_missing_primer_is_explained() -> None:
    run = verified(BROKEN / "wr103_missing_state_primer.yaml", ("WR", "CL"))
    fixes = {f.code: f.fix for f in run.findings}
    for code in ("WR103", "CL401"):
        assert "get_primers_from_module(policy)" in fixes[code]
        assert "auto_register_policy_transforms=True" in fixes[code]


def test_the_example_is_the_template_that_init_writes() -> None:
    example = load_spec(SPECS / "cartpole_dqn.yaml")
    template = load_spec(ROOT / "rnncheck" / "spec" / "templates" / "dqn.yaml")
    assert (example.env, example.policy) == (template.env, template.policy)
    assert example.collect == template.collect
