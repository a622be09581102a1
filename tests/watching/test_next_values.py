"""``rnncheck run``: passes over the next steps, and what each of these starts with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import next_values_script as scripts
from tests.watching.next_values_script import ALONG, CELL, FLAT, OWN, changed
from tests.watching.scripts import failed, run

CLEAN = ("LS701", "VL603", "VL604")
Changes = tuple[tuple[str, str], ...]


def ran(rnncheck: Any, folder: Path, text: str, *codes: str) -> tuple[int, list[str]]:
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, failed(told)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="no flag", marks=pytest.mark.slow),
        pytest.param((ALONG, scripts.ROOT_FLAGS), id="along the rows, the flags of the root"),
        pytest.param((FLAT,), id="laid flat", marks=pytest.mark.slow),
    ],
)
def test_passes_from_the_states_that_were_left(
    rnncheck: Any, tmp_path: Path, changes: Changes
) -> None:
    text = changed(OWN, *changes)
    assert ran(rnncheck, tmp_path, text, *CLEAN) == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((scripts.ROOT_FLAGS,), id="the flags of the root", marks=pytest.mark.slow),
        pytest.param((scripts.ALL_BEGIN,), id="every step begins", marks=pytest.mark.slow),
        pytest.param((FLAT, scripts.ROOT_FLAGS), id="flat, its flags", marks=pytest.mark.slow),
        pytest.param((FLAT, scripts.ROOT_MEMORY), id="flat, its memory", marks=pytest.mark.slow),
        pytest.param((FLAT, scripts.FROM_ZERO), id="flat, no memory", marks=pytest.mark.slow),
        pytest.param((FLAT, scripts.OTHER_ROWS), id="flat, another row's", marks=pytest.mark.slow),
    ],
)
def test_next_steps_that_start_otherwise(rnncheck: Any, tmp_path: Path, changes: Changes) -> None:
    """At the first step of each episode alone, where the flags are those of the root."""
    text = changed(OWN, *changes)
    assert ran(rnncheck, tmp_path, text, "VL604") == (ExitCode.FAILED, ["VL604"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((ALONG,), id="no flag"),
        pytest.param((ALONG, scripts.FLAGS_BEHIND), id="a step early"),
    ],
)
def test_a_pass_along_the_rows_that_runs_on(
    rnncheck: Any, tmp_path: Path, changes: Changes
) -> None:
    """Its memory goes from one episode into the next: that is named, and not its states."""
    text = changed(OWN, *changes)
    assert ran(rnncheck, tmp_path, text, "LS701", "VL604") == (ExitCode.FAILED, ["LS701"])


@pytest.mark.slow
def test_estimates_of_next_steps_that_are_laid_flat(rnncheck: Any, tmp_path: Path) -> None:
    assert ran(rnncheck, tmp_path, CELL, "VL604", "EQ201") == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(scripts.CELL_ROOT_MEMORY, id="the memory of the root"),
        pytest.param(scripts.CELL_FROM_ZERO, id="no memory", marks=pytest.mark.slow),
    ],
)
def test_their_memory_is_another(rnncheck: Any, tmp_path: Path, change: tuple[str, str]) -> None:
    text = changed(CELL, change)
    assert ran(rnncheck, tmp_path, text, "VL604") == (ExitCode.FAILED, ["VL604"])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="from the state that was left", marks=pytest.mark.slow),
        pytest.param(
            (scripts.CELL_LAST_TWO,), id="by the last step once more", marks=pytest.mark.slow
        ),
    ],
)
def test_the_value_behind_the_last_step(rnncheck: Any, tmp_path: Path, changes: Changes) -> None:
    text = changed(CELL, scripts.CELL_LAST, *changes)
    assert ran(rnncheck, tmp_path, text, "VL604") == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_the_value_behind_the_last_step_is_one_step_old(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(CELL, scripts.CELL_LAST, scripts.CELL_LAST_EARLY)
    assert ran(rnncheck, tmp_path, text, "VL604") == (ExitCode.FAILED, ["VL604"])


@pytest.mark.slow
def test_the_steps_own_value_in_an_actor_critic_loss(rnncheck: Any, tmp_path: Path) -> None:
    """It all but cancels with the value that is learned, but where an episode ends."""
    text = changed(OWN, ("0.97 * behind * (~over)", "0.97 * guess.detach() * (~over)"))
    assert ran(rnncheck, tmp_path, text, "VL604") == (ExitCode.FAILED, ["VL604"])
