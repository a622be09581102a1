"""``rnncheck run``: a loss that unrolls the cells of several agents by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import agents_script as scripts
from tests.watching.agents_script import (
    AGENTS,
    BOOTSTRAPPED,
    CHOSEN_FOR_OTHERS,
    PAID_TO_THE_FIRST,
    SUMS_AHEAD,
    SUMS_OF_ALL,
    SUMS_OF_OTHERS,
    VALUED_BY_OTHERS,
    WITHOUT_LAST,
    WITHOUT_LAST_OF_OTHERS,
)
from tests.watching.next_values_script import changed
from tests.watching.scripts import failed, judged, run

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
        pytest.param(scripts.NO_RESETS, "BD301", id="the resets are ignored", marks=SLOW),
    ],
)
def test_an_unroll_of_several_agents_with_a_fault(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], code: str
) -> None:
    (tmp_path / "train.py").write_text(changed(AGENTS, change))
    ended, told, _ = run(rnncheck, "--select", code, tmp_path / "train.py")
    assert (ended, failed(told)) == (ExitCode.FAILED, [code])


@pytest.mark.parametrize(
    "changes",
    [
        (SUMS_OF_OTHERS,),
        pytest.param((BOOTSTRAPPED, SUMS_OF_OTHERS), marks=SLOW),
        pytest.param((*WITHOUT_LAST, WITHOUT_LAST_OF_OTHERS), marks=SLOW),
    ],
    ids=["sums", "estimates", "one number"],
)
def test_sums_of_other_agents_are_named(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...]
) -> None:
    """They stand beside the right steps, under the right name, in another order of the agents."""
    found = judged(rnncheck, tmp_path, "RP509", SUMS_AHEAD, *changes)
    assert found == (ExitCode.FAILED, ["RP509"])


@pytest.mark.parametrize(
    "change", [VALUED_BY_OTHERS, pytest.param(CHOSEN_FOR_OTHERS, marks=SLOW)], ids=["all", "policy"]
)
def test_a_loss_that_weighs_agents_with_others_is_named(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str]
) -> None:
    found = judged(rnncheck, tmp_path, "LS707", AGENTS, change)
    assert found == (ExitCode.FAILED, ["LS707"])


def test_what_one_agent_is_paid_may_train_all(rnncheck: Any, tmp_path: Path) -> None:
    found = judged(rnncheck, tmp_path, "LS707", AGENTS, PAID_TO_THE_FIRST)
    assert found == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    "changes",
    [
        (),
        pytest.param((SUMS_OF_ALL,), marks=SLOW),
        pytest.param((BOOTSTRAPPED,), marks=SLOW),
        pytest.param(WITHOUT_LAST, marks=SLOW),
    ],
    ids=["own", "of the team", "estimated", "one number"],
)
def test_sums_of_ones_own_and_of_the_team_are_not(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...]
) -> None:
    found = judged(rnncheck, tmp_path, "RP509,LS707", SUMS_AHEAD, *changes)
    assert found == (ExitCode.VERIFIED, [])
