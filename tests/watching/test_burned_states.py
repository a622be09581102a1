"""``rnncheck run``: what the pass over the next steps begins with, behind a burn-in transform."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

NEXT = 'following = rows["next"].copy().set("is_init", rows["is_init"])\n'
ZEROS = (NEXT, NEXT + '            following["recurrent_state"] = 0 * rows["recurrent_state"]\n')
COLLECTED = ("best = net(following)", "best = net(following.clone())")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(COLLECTED, (ExitCode.VERIFIED, []), id="what acting left"),
        pytest.param(ZEROS, (ExitCode.FAILED, ["VL604"]), id="zeros"),
    ],
)
def test_it_does_not_begin_with_zeros(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], expected: Any
) -> None:
    """Where the pass over the steps begins with what the burn-in has left."""
    code, told, _ = run(rnncheck, "--select", "VL604", planted(tmp_path, "r2d2_slices.py", change))
    assert (code, failed(told)) == expected
