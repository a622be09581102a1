"""``rnncheck run``: lines that train one group of agents after the other are a loss of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.groups_script import GROUPS
from tests.watching.scripts import judged

# In the second group alone.
RUN_ON = (
    "*(one.expand_as(v) for one in ends)",
    '*(one.expand_as(v) & (g != "scouts") for one in ends)',
)
UNSTEPPED = (
    "[*rnns[g].parameters(), *heads[g].parameters()]",
    '[*(rnns[g].parameters() if g != "scouts" else ()), *heads[g].parameters()]',
)


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ((), []),
        pytest.param((RUN_ON,), ["LS701"], marks=pytest.mark.slow),
        ((UNSTEPPED,), ["GR806"]),
    ],
)
def test_lines_with_a_group_of_their_own(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], codes: list[str]
) -> None:
    asked = "RP503,LS701,LS704,LS706,GR803,GR806"
    ended, found = judged(rnncheck, tmp_path, asked, GROUPS, *changes)
    assert (ended, found) == (ExitCode.FAILED if codes else ExitCode.VERIFIED, codes)
