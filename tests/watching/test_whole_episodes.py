"""``rnncheck run``: padded episodes, and a loss over their T+1 observations without start flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged
from tests.watching.whole_episodes_script import OWN_VALUES, SCRIPT, SHIFTED


@pytest.mark.parametrize("codes", ["BD3,EQ,CL,RP", "LS707,VL604"])
def test_each_row_begins_with_its_memory(rnncheck: Any, tmp_path: Path, codes: str) -> None:
    """No two episodes are laid end to end for it, and what is observed next is of the step
    behind."""
    assert judged(rnncheck, tmp_path, codes, SCRIPT) == (ExitCode.VERIFIED, [])


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
