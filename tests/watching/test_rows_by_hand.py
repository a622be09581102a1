"""``rnncheck run``: rows that a script, or its loss, lays out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.episodes_script import COUNTED, EPISODES, LEFT_FLAT, NO_STATES, SLICES
from tests.watching.scripts import failed, run

SLOW = pytest.mark.slow


def ran(rnncheck: Any, folder: Path, text: str, *codes: str) -> tuple[int, list[str]]:
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, failed(told)


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


def test_padding_that_is_zero_and_summed(rnncheck: Any, tmp_path: Path) -> None:
    """Returns read rewards of padded steps, which are none; and they are collected ones."""
    assert ran(rnncheck, tmp_path, EPISODES, "RP503", "RP505") == (ExitCode.VERIFIED, [])


def test_padding_that_a_mean_counts(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(EPISODES, *COUNTED)
    assert ran(rnncheck, tmp_path, text, "RP505") == (ExitCode.FAILED, ["RP505"])


def test_whether_rows_of_unknown_steps_need_a_state_is_not_known(
    rnncheck: Any, tmp_path: Path
) -> None:
    """What is observed was changed on the way, so that no step can be told from another."""
    text = changed(EPISODES, *NO_STATES)
    kept = 'rewards = [one["next", "reward"]'
    text = changed(text, kept, f"rows['observation'] = rows['observation'].cos() * 3\n    {kept}")
    assert ran(rnncheck, tmp_path, text, "RP503") == (ExitCode.NOT_SHOWN, [])


def test_whole_episodes_need_no_state(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(EPISODES, *NO_STATES)
    assert ran(rnncheck, tmp_path, text, "RP503", "RP504", "RP507")[1] == []


def test_slices_that_the_loss_parts_into_rows(rnncheck: Any, tmp_path: Path) -> None:
    """The buffer marks no starts, and each row begins with its stored state."""
    assert ran(rnncheck, tmp_path, SLICES, "RP501", "RP507", "LS701") == (ExitCode.VERIFIED, [])


def test_slices_that_it_leaves_end_to_end(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(SLICES, *LEFT_FLAT)
    text = changed(text, 'out["logits"].flatten(0, 1), label.flatten()', 'out["logits"], label')
    assert ran(rnncheck, tmp_path, text, "RP501") == (ExitCode.FAILED, ["RP501"])
