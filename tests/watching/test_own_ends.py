"""``rnncheck run``: the ends of episodes in targets that a loss makes itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import ends_script as scripts
from tests.watching.ends_script import CLIPPED, MADE, OF_ITS_OWN, SHORT, STEPPED, THREE_STEPS
from tests.watching.next_values_script import FROM_ZERO, OWN, changed
from tests.watching.scripts import failed, run

CLEAN = ("LS701", "VL603", "VL604")
SLOW = pytest.mark.slow
STORED = (STEPPED, *OF_ITS_OWN)
Changes = tuple[tuple[str, str], ...]


def ran(rnncheck: Any, folder: Path, text: str, *codes: str) -> tuple[int, list[str]]:
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, failed(told)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((CLIPPED,), id="one step"),
        pytest.param((CLIPPED, THREE_STEPS), id="three steps", marks=SLOW),
        pytest.param((scripts.SIGNS,), id="signs", marks=SLOW),
    ],
)
def test_clipped_rewards_are_no_fault(rnncheck: Any, tmp_path: Path, changes: Changes) -> None:
    text = changed(OWN, *changes)
    assert ran(rnncheck, tmp_path, text, *CLEAN) == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param((CLIPPED, scripts.ENDS_IGNORED), "VL603", id="ends ignored"),
        pytest.param((CLIPPED, FROM_ZERO), "VL604", id="next values from zero", marks=SLOW),
        pytest.param(
            (CLIPPED, THREE_STEPS, scripts.THREE_IGNORED), "VL603", id="three steps", marks=SLOW
        ),
        pytest.param(
            (CLIPPED, THREE_STEPS, scripts.THREE_RUN_ON), "LS701", id="run on", marks=SLOW
        ),
        pytest.param((scripts.SIGNS, scripts.ENDS_IGNORED), "VL603", id="signs", marks=SLOW),
    ],
)
def test_faults_beside_clipped_rewards(
    rnncheck: Any, tmp_path: Path, changes: Changes, code: str
) -> None:
    """All rewards of the script are as large as the clipped ones may be."""
    text = changed(OWN, *changes)
    assert ran(rnncheck, tmp_path, text, code) == (ExitCode.FAILED, [code])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="one step", marks=SLOW),
        pytest.param((THREE_STEPS,), id="three steps", marks=SLOW),
        pytest.param((CLIPPED,), id="clipped", marks=SLOW),
        pytest.param((MADE, *OF_ITS_OWN), id="an entry made ahead", marks=SLOW),
        pytest.param((STEPPED, *OF_ITS_OWN), id="an entry that was stored", marks=SLOW),
        pytest.param((*STORED, *scripts.UNDER_NEXT), id="stored under next", marks=SLOW),
        pytest.param(
            (*STORED, *scripts.AS_A_FLAG), id="a flag that was stored", marks=pytest.mark.slow
        ),
    ],
)
def test_ends_are_respected_where_none_was_seen(
    rnncheck: Any, tmp_path: Path, changes: Changes
) -> None:
    """What the script itself makes of the ends knows of no other ones."""
    text = changed(SHORT, *changes)
    assert ran(rnncheck, tmp_path, text, *CLEAN) == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="one step"),
        pytest.param((CLIPPED,), id="clipped", marks=SLOW),
        pytest.param((STEPPED,), id="beside an entry that nothing reads", marks=SLOW),
    ],
)
def test_ends_are_ignored_where_none_was_seen(
    rnncheck: Any, tmp_path: Path, changes: Changes
) -> None:
    text = changed(SHORT, *changes, scripts.ENDS_IGNORED)
    assert ran(rnncheck, tmp_path, text, "VL603") == (ExitCode.FAILED, ["VL603"])


def test_three_steps_ignore_ends_where_none_was_seen(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(SHORT, THREE_STEPS, scripts.THREE_IGNORED)
    assert ran(rnncheck, tmp_path, text, "VL603") == (ExitCode.FAILED, ["VL603"])


@SLOW
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((MADE, *OF_ITS_OWN), id="made ahead"),
        pytest.param((STEPPED, *OF_ITS_OWN), id="stored"),
        pytest.param((STEPPED, *OF_ITS_OWN, *scripts.UNDER_NEXT), id="stored under next"),
    ],
)
def test_ends_are_taken_from_an_entry_of_its_own(
    rnncheck: Any, tmp_path: Path, changes: Changes
) -> None:
    """Some episodes terminate."""
    text = changed(OWN, *changes)
    assert ran(rnncheck, tmp_path, text, *CLEAN) == (ExitCode.VERIFIED, [])
    ignoring = changed(text, scripts.WHATEVER_ENDS)
    assert ran(rnncheck, tmp_path, ignoring, "VL603") == (ExitCode.FAILED, ["VL603"])


@pytest.mark.parametrize(
    ("change", "severity", "code"),
    [
        pytest.param(scripts.ALL_CLEARED, "error", ExitCode.FAILED, id="all"),
        pytest.param(scripts.LATE_CLEARED, "warning", ExitCode.VERIFIED, id="those of late steps"),
    ],
)
def test_ends_are_cleared_ahead_of_the_loss(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], severity: str, code: int
) -> None:
    """Of some, the script may take a limit of the env's back."""
    (tmp_path / "train.py").write_text(changed(OWN, change))
    ended, told, _ = run(rnncheck, "--select", "VL603", tmp_path / "train.py")
    (check,) = told["checks"]
    assert (ended, check["outcome"], check["severity"]) == (code, "failed", severity)


def test_ends_that_were_none_are_cleared(rnncheck: Any, tmp_path: Path) -> None:
    """No episode comes to the limit at which the flags are cleared."""
    text = changed(OWN, scripts.LIMIT_CLEARED)
    assert ran(rnncheck, tmp_path, text, "VL603") == (ExitCode.VERIFIED, [])
