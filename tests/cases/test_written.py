"""Programs that `rnncheck replay ID --script` writes: each runs where rnncheck cannot be imported
and exits 1, and 0 where its fault is mended."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rnncheck.cases.programs.choose import reason_without, shapes_of
from rnncheck.checks.catalogue import builtin
from rnncheck.checks.engine.registry import rules
from rnncheck.cli.app import app
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Severity
from tests import warm

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
ALONE = """\
import runpy, sys
sys.modules["rnncheck"] = None
sys.argv[:] = ["repro.py", *sys.argv[1:]]
sys.path.insert(0, "")
runpy.run_path("repro.py", run_name="__main__")
"""
MENDED = ("", "")  # the program knows what mends it
NOT_HERE = None  # nothing in the program alone mends it
IN_CI = ("bd301_state_crosses_reset",)

# By fixture: words of its program, and what stands there in one without the fault.
CHANGES: dict[str, tuple[str, str] | None] = {
    "bd301_state_crosses_reset": ("OneLongSequence", "MaskedSequence"),
    "bd301_training_pass_runs_on": ("resets=False", "resets=True"),
    "bd302_state_survives_reset": ("masks=False", "masks=True"),
    "bd303_gradient_crosses_reset": ("KernelCell", "SeparatingKernelCell"),
    "bd304_future_reaches_past": ("LooksAhead", "LooksBack"),
    "bd305_rows_mix": ("CentredOverEnvs", "CentredOverFeatures"),
    "bd306_memory_dead": ("ForgetsAtOnce", "ForgetsFast"),
    "bd307_partial_reset": ('masked=["h"]', 'masked=["h", "c"]'),
    "cl401_acted_without_memory": (
        'shown=["observation", "is_init"]',
        'shown=["observation", "is_init", "recurrent_state_h", "recurrent_state_c"]',
    ),
    "cl402_carry_broken": ("ended_only=False", "ended_only=True"),
    "cl403_state_not_reset": NOT_HERE,
    "cl405_boundary_unmarked": ("mark=False", "mark=True"),
    "cl406_replay_differs_from_collection": ("trained=False", "trained=True"),
    "cl410_acts_in_recurrent_mode": ("recurrent=True", "recurrent=False"),
    "eq201_modes_disagree": ("shared=False", "shared=True"),
    "eq202_end_state_wrong": ("RowEnd", "EpisodeEnds"),
    "eq204_layout_changes_result": NOT_HERE,
    "eq205_gradients_disagree": ("every=1", "every=7"),
    "eq206_not_repeatable": NOT_HERE,
    "gr801_graph_cut": ("detach=True", "detach=False"),
    "gr802_not_finite": ("RootOfZero", "SafeRoot"),
    "gr803_parameter_without_gradient": ("StoredFeatures", "OneStep"),
    "gr804_does_not_learn": ("WrongSign", "OneStep"),
    "ls701_loss_crosses_boundary": MENDED,
    "ls701_return_over_end": ("ends=False", "ends=True"),
    "ls702_ratio_not_one": ("remember=False", "remember=True"),
    "ls703_loss_ignores_memory": ("WithoutMemory", "OneStep"),
    "ls704_loss_differs_per_slice": ("SumsRunOn", "OneStep"),
    "ls705_batch_changed_by_loss": ("HalvesRewards", "OneStep"),
    "ls706_loss_cannot_run": NOT_HERE,
    "rp501_slice_start_unmarked": MENDED,
    "rp502_steps_not_consecutive": NOT_HERE,
    "rp503_keys_lost": ("without_states", "whole"),
    "rp504_stored_state_wrong": ("states_of_another_row", "whole"),
    "rp506_batch_crosses_episodes": ("flags_by_truncated", "flags_by_done"),
    "rp507_replayed_outputs_differ": NOT_HERE,
    "vl601_target_crosses_boundary": ('flags="next"', 'flags="root"'),
    "vl602_next_value_inconsistent": ('state="zero"', 'state="collected"'),
    "vl603_bootstraps_over_the_end": ('ends="truncated"', 'ends="terminated"'),
    "vl603_loss_over_the_end": ("OverTheEnd", "OneStep"),
    "vl603_next_episode": ('after="shifted"', 'after="next"'),
    "vl604_own_step": ('after="own"', 'after="next"'),
    "vl605_estimator_cannot_run": NOT_HERE,
    "wr102_missing_init_tracker": MENDED,
    "wr103_missing_state_primer": MENDED,
    "wr104_primer_does_not_fit": ("shape=[1, 32]", "shape=[1, 24]"),
    "wr105_random_initial_state": MENDED,
    "wr107_written_behind": ("under_next=False", "under_next=True"),
    "wr108_env_breaks_its_specs": ("AddsSquares", "DeclaresSquares"),
    "wr109_start_flag_wrong": ('ends=["terminated"]', 'ends=["done"]'),
    "wr110_policy_cannot_run": ("split=False", "split=True"),
    "wr111_action_misread": ('encoding="index"', 'encoding="one_hot"'),
    "wr112_observation_survives_reset": ("clears=False", "clears=True"),
}


def fixture_named(name: str) -> Path:
    return next(FIXTURES.rglob(f"{name}.yaml"))


def exit_of(code: str) -> ExitCode:
    """Of a run in which the check fails: a warning fails none."""
    warns = builtin().find(code).severity is Severity.WARNING
    return ExitCode.VERIFIED if warns else ExitCode.FAILED


def stored(folder: Path, name: str) -> str:
    """Verify the fixture beside its modules; the id of the case."""
    for path in fixture_named(name).parent.glob("*.py"):
        shutil.copy(path, folder)
    shutil.copy(fixture_named(name), folder / "spec.yaml")
    code = name.partition("_")[0].upper()
    command = ["verify", "spec.yaml", "--select", code, "--no-repair", "--cases", "5"]
    assert CliRunner().invoke(app, command).exit_code == exit_of(code)
    (case,) = Path(".rnncheck/cases").iterdir()
    return case.name


def ended(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    """Exit code and lines of the program, where there is no rnncheck."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = warm.run(ALONE, *arguments, cwd=folder, env=env)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in IN_CI else pytest.mark.slow) for n in CHANGES],
)
def test_a_program_shows_the_fault_until_it_is_mended(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    change, case = CHANGES[name], stored(tmp_path, name)
    done = CliRunner().invoke(app, ["replay", case, "--script", "repro.py"])
    assert done.exit_code == ExitCode.VERIFIED, done.output
    assert ("--mended" in done.output) is (change == MENDED)
    code, lines = ended(tmp_path)
    assert code == 1
    assert len(lines) >= 2
    if change == MENDED:
        assert ended(tmp_path, "--mended")[0] == 0
    elif change is not NOT_HERE:
        text = Path("repro.py").read_text()
        assert change[0] in text
        Path("repro.py").write_text(text.replace(*change))
        assert ended(tmp_path)[0] == 0


def test_every_check_has_a_program_or_a_reason() -> None:
    for rule in rules():
        why = reason_without(rule.code)
        assert bool(shapes_of(rule.code)) is ("is a check of your own" in why), rule.code
