"""``rnncheck run``: plain loops that act and train in their own lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.lines_script import (
    EPISODE_FAULTS,
    EPISODES,
    GRAPHED,
    GRAPHED_FAULTS,
    LOOP,
    LOOP_FAULTS,
    TRAINER,
    TRAINER_FAULTS,
)
from tests.watching.scripts import failed, run

SCRIPTS = {
    "loop": (LOOP, LOOP_FAULTS),
    "trainer": (TRAINER, TRAINER_FAULTS),
    "episodes": (EPISODES, EPISODE_FAULTS),
    "graphed": (GRAPHED, GRAPHED_FAULTS),
}
PLANTED = [(name, code) for name, (_, faults) in SCRIPTS.items() for code in faults]


def ran(rnncheck: Any, folder: Path, text: str) -> tuple[int, list[str]]:
    (folder / "train.py").write_text(text)
    code, told, _ = run(rnncheck, folder / "train.py")
    return code, failed(told)


@pytest.mark.slow
def test_episodes_that_are_trained_on_one_by_one(rnncheck: Any, tmp_path: Path) -> None:
    """Their pass is made for one episode: it resets nothing, and need not."""
    assert ran(rnncheck, tmp_path, EPISODES) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_healthy_loops_are_verified(rnncheck: Any, tmp_path: Path, name: str) -> None:
    assert ran(rnncheck, tmp_path, SCRIPTS[name][0]) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), PLANTED)
def test_their_faults_are_named(rnncheck: Any, tmp_path: Path, name: str, code: str) -> None:
    text, faults = SCRIPTS[name]
    old, new = faults[code]
    assert old in text
    ended, names = ran(rnncheck, tmp_path, text.replace(old, new))
    assert (ended, code in names) == (ExitCode.FAILED, True), names
