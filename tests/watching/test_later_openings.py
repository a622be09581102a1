"""``rnncheck run``: states that are set to zero ahead of training, where the first rows all begin
with episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.faults import EPOCHS, FIRST_KEPT, ROWS, SET_TO_ZERO
from tests.watching.halves_script import STEPPED
from tests.watching.scripts import failed, planted, run

PPO = "ppo_cartpole.py"
COARSE = ("return observation[::2]", "return np.float32(observation[::2] > 0)")
FLAT = (ROWS, "loss_module(data[rows].reshape(-1))")
# Starts of rows are marked, and where they begin inside of an episode the flag takes their state.
MARKED = (
    "            for rows in torch.randperm",
    """            data["is_init"][:, 0] = True
            for rows in torch.randperm""",
)
DROPPED = (
    EPOCHS,
    """        data = data.exclude("recurrent_state_h", "recurrent_state_c")
"""
    + EPOCHS,
)
FEW = ("total_frames=args.total_frames", "total_frames=2 * args.frames_per_batch")
ZEROED = 'batch.clone().set("recurrent_state", 0 * batch["recurrent_state"])'


def asked(rnncheck: Any, path: Path) -> tuple[int, list[str], dict[str, Any]]:
    ended, told, _ = run(rnncheck, "--select", "RP504", path)
    return ended, failed(told), told["checks"][0]


@pytest.mark.slow
def test_the_rows_of_the_next_batch_tell(rnncheck: Any, tmp_path: Path) -> None:
    ended, names, check = asked(rnncheck, planted(tmp_path, PPO, (EPOCHS, SET_TO_ZERO + EPOCHS)))
    assert (ended, names) == (ExitCode.FAILED, ["RP504"])
    assert "began inside of an episode" in check["findings"][0]["message"]


def test_only_the_first_states_may_be_kept(rnncheck: Any, tmp_path: Path) -> None:
    """Recurrent mode reads no others."""
    ended, names, _ = asked(rnncheck, planted(tmp_path, PPO, (EPOCHS, FIRST_KEPT + EPOCHS)))
    assert (ended, names) == (ExitCode.VERIFIED, [])


def test_the_rows_of_the_next_steps_tell(rnncheck: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEPPED.replace("GIVEN", ZEROED))
    ended, names, _ = asked(rnncheck, tmp_path / "train.py")
    assert (ended, names) == (ExitCode.FAILED, ["RP504"])


@pytest.mark.slow
def test_what_is_kept_of_the_run_says_the_same(rnncheck: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEPPED.replace("GIVEN", ZEROED))
    run(rnncheck, "--select", "RP504", "--save", "seen", tmp_path / "train.py", cwd=tmp_path)
    again = rnncheck("verify", "--select", "RP504", "seen", cwd=tmp_path)
    assert again.returncode == ExitCode.FAILED, again.stdout


def test_episodes_that_all_begin_with_their_rows(rnncheck: Any, tmp_path: Path) -> None:
    """No later row begins inside of one: zeros are true."""
    text = STEPPED.replace("GIVEN", ZEROED).replace("STEPS, HALF = 20", "STEPS, HALF = 6")
    text = text.replace("    steps = []\n", "    steps, td = [], env.reset()\n")
    (tmp_path / "train.py").write_text(text)
    ended, names, _ = asked(rnncheck, tmp_path / "train.py")
    assert (ended, names) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_observations_that_come_again_tell_no_step(rnncheck: Any, tmp_path: Path) -> None:
    """Behind the first step of a row the states are zero, which recurrent mode does not read; what
    was observed where a later row began is observed at other steps too."""
    path = planted(tmp_path, PPO, (EPOCHS, FIRST_KEPT + EPOCHS), COARSE)
    ended, names, _ = asked(rnncheck, path)
    assert (ended, names) == (ExitCode.VERIFIED, [])


def test_what_the_policy_said_tells_them_then(rnncheck: Any, tmp_path: Path) -> None:
    path = planted(tmp_path, PPO, (EPOCHS, SET_TO_ZERO + EPOCHS), COARSE)
    ended, names, check = asked(rnncheck, path)
    assert (ended, names) == (ExitCode.FAILED, ["RP504"])
    assert "began inside of an episode" in check["findings"][0]["message"]


def test_rows_laid_end_to_end(rnncheck: Any, tmp_path: Path) -> None:
    """All of the first begin with episodes, and are marked."""
    ended, told, _ = run(rnncheck, "--select", "RP501", planted(tmp_path, PPO, FLAT))
    assert (ended, failed(told)) == (ExitCode.FAILED, ["RP501"])
    (finding,) = told["checks"][0]["findings"]
    assert "behind other steps with no start flag" in finding["message"]


@pytest.mark.slow
def test_rows_laid_end_to_end_that_are_marked(rnncheck: Any, tmp_path: Path) -> None:
    ended, told, _ = run(rnncheck, "--select", "RP501", planted(tmp_path, PPO, FLAT, MARKED))
    assert (ended, failed(told)) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_states_that_are_dropped_where_nothing_more_can_be_collected(
    rnncheck: Any, tmp_path: Path
) -> None:
    """The first rows need none; the second batch of two was seen to go on with episodes."""
    path = planted(tmp_path, PPO, DROPPED, FEW)
    ended, told, _ = run(rnncheck, "--updates", "12", "--select", "RP503", path)
    assert (ended, failed(told)) == (ExitCode.FAILED, ["RP503"])
