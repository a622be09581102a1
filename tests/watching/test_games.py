"""``rnncheck run``: ends of episodes that are the ends of batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.game_script import ALIKE, GAMES, LAST_END_LOST, LOST, TRUNCATED, TWO_GAMES
from tests.watching.next_values_script import changed
from tests.watching.scripts import failed, run

Changes = tuple[tuple[str, str], ...]
SLOW = pytest.mark.slow


def asked(rnncheck: Any, folder: Path, changes: Changes) -> tuple[int, list[str], dict[str, Any]]:
    """Exit code, codes that failed, and what VL603 says."""
    (folder / "train.py").write_text(changed(GAMES, *changes))
    ended, told, _ = run(rnncheck, "--select", "VL603", folder / "train.py")
    return ended, failed(told), next(one for one in told["checks"] if one["code"] == "VL603")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="terminated"),
        pytest.param((TWO_GAMES,), id="two in a row", marks=SLOW),
        pytest.param((TRUNCATED,), id="truncated", marks=SLOW),
        pytest.param((ALIKE,), id="all begin alike", marks=SLOW),
        pytest.param((TRUNCATED, ALIKE), id="truncated, all begin alike", marks=SLOW),
    ],
)
def test_episodes_that_end_with_their_batch(
    rnncheck: Any, tmp_path: Path, changes: Changes
) -> None:
    assert asked(rnncheck, tmp_path, changes)[:2] == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((LOST,), id="terminated"),
        pytest.param((TRUNCATED, LOST), id="truncated", marks=SLOW),
    ],
)
def test_ends_that_show_what_the_next_batch_begins_with(
    rnncheck: Any, tmp_path: Path, changes: Changes
) -> None:
    ended, names, check = asked(rnncheck, tmp_path, changes)
    assert (ended, names) == (ExitCode.FAILED, ["VL603"])
    assert check["findings"][0]["message"].endswith("the terminal one is lost")


@SLOW
def test_nothing_tells_where_all_of_them_begin_alike(rnncheck: Any, tmp_path: Path) -> None:
    ended, names, check = asked(rnncheck, tmp_path, (TRUNCATED, ALIKE, LOST))
    assert (ended, names, check["outcome"]) == (ExitCode.NOT_SHOWN, [], "could-not-look")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((LAST_END_LOST,), id="one in a row"),
        pytest.param((TWO_GAMES, LAST_END_LOST), id="two in a row", marks=SLOW),
    ],
)
def test_a_last_value_that_counts_behind_a_terminal_step(
    rnncheck: Any, tmp_path: Path, changes: Changes
) -> None:
    """Every end inside of a row is respected."""
    ended, names, check = asked(rnncheck, tmp_path, changes)
    assert (ended, names) == (ExitCode.FAILED, ["VL603"])
    assert check["findings"][0]["stage"] == "loss"
