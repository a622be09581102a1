"""``rnncheck run``: rollouts of the script's own that go on where it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

AT_ONCE = ('"warm_up": 2', '"warm_up": 0')
GOES_ON = "        last = env.step_mdp(rows[..., -1])\n"
DROPPED = (GOES_ON, GOES_ON + '        last["recurrent_state_h"] = 0 * last["recurrent_state_h"]\n')


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="the state goes on"),
        pytest.param((DROPPED,), (ExitCode.FAILED, ["CL404"]), id="a part of it is dropped"),
    ],
)
def test_the_second_is_waited_for(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: Any
) -> None:
    """Where one update is enough of all else."""
    script = planted(tmp_path, "sac_rollouts.py", AT_ONCE, *changes)
    code, told, _ = run(rnncheck, "--updates", "1", "--select", "CL404", script)
    assert (code, failed(told)) == expected
