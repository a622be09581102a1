"""``rnncheck run``: states that a loop keeps where pieces of its rollout begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.piece_states_script import OTHER_ENVS, PIECES
from tests.watching.scripts import failed, judged, run, written


@pytest.mark.slow
def test_a_healthy_one_shows_all(rnncheck: Any, tmp_path: Path) -> None:
    code, told, done = run(rnncheck, written(tmp_path, PIECES))
    assert (code, failed(told)) == (ExitCode.VERIFIED, []), done.stderr
    assert {one["standing"] for one in told["guarantees"]} == {"shown"}


def test_states_of_other_envs_are_named(rnncheck: Any, tmp_path: Path) -> None:
    given = judged(rnncheck, tmp_path, "RP504", PIECES, OTHER_ENVS)
    assert given == (ExitCode.FAILED, ["RP504"])
