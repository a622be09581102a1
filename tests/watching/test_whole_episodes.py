"""``rnncheck run``: padded episodes, and a loss over their T+1 observations without start flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged, run, written
from tests.watching.whole_episodes_script import (
    NO_FLAGS,
    OF_NOW,
    OWN_VALUES,
    PREVIOUS,
    SCRIPT,
    SHIFTED,
)


@pytest.mark.parametrize(
    ("codes", "changes"),
    [
        pytest.param("BD3,EQ,CL,RP", (), id="states", marks=pytest.mark.slow),
        pytest.param("LS707,VL604", (), id="loss"),
        pytest.param("BD3,EQ,CL,RP", (NO_FLAGS,), id="no flags", marks=pytest.mark.slow),
        pytest.param(
            "BD3,EQ,CL,RP,VL604", PREVIOUS, id="shown the step before", marks=pytest.mark.slow
        ),
    ],
)
def test_each_row_begins_with_its_memory(
    rnncheck: Any, tmp_path: Path, codes: str, changes: tuple[tuple[str, str], ...]
) -> None:
    """No two episodes are laid end to end for it, and what is observed next is of the step
    behind."""
    assert judged(rnncheck, tmp_path, codes, SCRIPT, *changes) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_what_was_shown_is_kept(rnncheck: Any, tmp_path: Path) -> None:
    kept, codes = tmp_path / "seen.rnncheck", "BD3,EQ,CL"
    run(rnncheck, "--select", codes, "--save", kept, written(tmp_path, SCRIPT, *PREVIOUS))
    done = rnncheck("verify", "--select", codes, str(kept), cwd=tmp_path)
    assert done.returncode == ExitCode.VERIFIED, done.stdout


@pytest.mark.slow
def test_what_a_step_itself_had_is_not_what_acting_was_shown(rnncheck: Any, tmp_path: Path) -> None:
    """The passes are shown the action that they are to choose."""
    code, found = judged(rnncheck, tmp_path, "BD304", SCRIPT, *PREVIOUS, OF_NOW)
    assert (code, found) == (ExitCode.FAILED, ["BD304"])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(SHIFTED, "LS707", id="actions of the step before"),
        pytest.param(OWN_VALUES, "VL604", id="values of the step itself"),
    ],
)
def test_its_faults_are_named(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], code: str
) -> None:
    assert judged(rnncheck, tmp_path, code, SCRIPT, change) == (ExitCode.FAILED, [code])
