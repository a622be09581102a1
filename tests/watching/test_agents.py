"""``rnncheck run``: a loss that unrolls the cells of several agents by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import agents_script as scripts
from tests.watching.agents_script import AGENTS
from tests.watching.next_values_script import changed
from tests.watching.scripts import failed, run

SLOW = pytest.mark.slow


@SLOW
def test_an_unroll_of_several_agents_is_verified(rnncheck: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(AGENTS)
    code, told, _ = run(rnncheck, tmp_path / "train.py")
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    assert {one["standing"] for one in told["guarantees"]} == {"shown"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(scripts.DROPPED, "CL406", id="the states are dropped"),
        pytest.param(scripts.FROM_ZERO, "CL406", id="rows begin with zeros", marks=SLOW),
        pytest.param(scripts.OTHER_AGENTS, "CL406", id="those of other agents", marks=SLOW),
        pytest.param(scripts.NO_RESETS, "BD301", id="the resets are ignored"),
    ],
)
def test_an_unroll_of_several_agents_with_a_fault(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], code: str
) -> None:
    (tmp_path / "train.py").write_text(changed(AGENTS, change))
    ended, told, _ = run(rnncheck, "--select", code, tmp_path / "train.py")
    assert (ended, failed(told)) == (ExitCode.FAILED, [code])
