"""``rnncheck run``: the targets that a loss of one's own makes, and its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict, TensorDictBase

from rnncheck.results.exit_codes import ExitCode
from rnncheck.watching.forms.in_form import _beginning_inside
from tests.watching.scripts import failed, planted, run, written
from tests.watching.targets_script import (
    DRAWN,
    IN_TURN,
    LAST_LOST,
    OWN,
    OWN_STEP,
    SEEDED,
    SMOOTH,
    STATE_LEFT_OUT,
    WHOLE_EPISODES,
    halves,
    scaled,
)

Q = "q_rollouts.py"
SATURATED = 3.0  # beside rewards of 0.1: every error of a target that goes on is larger than 1


def asked(rnncheck: Any, path: Path, code: str) -> tuple[int, list[str], dict[str, Any]]:
    """Exit code, codes that failed, and the check that was asked."""
    ended, told, _ = run(rnncheck, "--select", code, path)
    return ended, failed(told), next(one for one in told["checks"] if one["code"] == code)


@pytest.mark.slow
def test_a_loss_that_leaves_the_stored_state_out(rnncheck: Any, tmp_path: Path) -> None:
    """Its first rows all begin with episodes, where the state is zero anyhow."""
    ended, names, _ = asked(rnncheck, written(tmp_path, OWN, STATE_LEFT_OUT), "VL604")
    assert (ended, names) == (ExitCode.FAILED, ["VL604"])


@pytest.mark.slow
def test_a_loss_that_passes_the_stored_state(rnncheck: Any, tmp_path: Path) -> None:
    ended, names, _ = asked(rnncheck, written(tmp_path, OWN), "VL604")
    assert (ended, names) == (ExitCode.VERIFIED, [])


def test_rows_that_the_loss_shuffles_itself(rnncheck: Any, tmp_path: Path) -> None:
    path = written(tmp_path, OWN, halves(DRAWN, "0.5"))
    ended, names, check = asked(rnncheck, path, "LS704")
    assert (ended, names, check["outcome"]) == (ExitCode.NOT_SHOWN, [], "not-applicable")
    assert check["reason"].startswith("the loss shuffles the slices itself")


@pytest.mark.slow
def test_rows_that_count_by_their_place(rnncheck: Any, tmp_path: Path) -> None:
    path = written(tmp_path, OWN, halves(IN_TURN, "0.5"))
    assert asked(rnncheck, path, "LS704")[:2] == (ExitCode.FAILED, ["LS704"])


@pytest.mark.slow
def test_a_loss_that_draws_something_else_is_not_taken_for_one_that_shuffles(
    rnncheck: Any, tmp_path: Path
) -> None:
    path = written(tmp_path, OWN, halves(IN_TURN, "torch.rand(())"))
    ended, names, check = asked(rnncheck, path, "LS704")
    assert (ended, names, check["outcome"]) == (ExitCode.NOT_SHOWN, [], "could-not-look")
    assert check["reason"] == "the loss draws random numbers"


@pytest.mark.slow
@pytest.mark.parametrize("bonus", [0.0, SATURATED])
def test_errors_that_are_linear_tell_nothing_of_their_targets(
    rnncheck: Any, tmp_path: Path, bonus: float
) -> None:
    """No next observation moves the loss there, and no observation of the step itself."""
    path = planted(tmp_path, Q, SEEDED, SMOOTH, scaled(bonus))
    assert asked(rnncheck, path, "VL604")[:2] == (ExitCode.VERIFIED, [])


def test_a_target_of_the_steps_own_value(rnncheck: Any, tmp_path: Path) -> None:
    path = planted(tmp_path, Q, SEEDED, SMOOTH, scaled(0.0), OWN_STEP)
    ended, names, _ = asked(rnncheck, path, "VL604")
    assert (ended, names) == (ExitCode.FAILED, ["VL604"])


def test_episodes_that_end_with_their_rows(rnncheck: Any, tmp_path: Path) -> None:
    """No step is recorded behind any end."""
    ended, names, check = asked(rnncheck, written(tmp_path, WHOLE_EPISODES), "VL603")
    assert (ended, names) == (ExitCode.VERIFIED, [])
    assert check["reason"].endswith("ends of episodes and targets there")


def test_their_last_observation_may_be_lost(rnncheck: Any, tmp_path: Path) -> None:
    """All that is seen there is what episodes begin with: whether they end so, nobody knows."""
    path = written(tmp_path, WHOLE_EPISODES, LAST_LOST)
    ended, names, check = asked(rnncheck, path, "VL603")
    assert (ended, names, check["outcome"]) == (ExitCode.NOT_SHOWN, [], "could-not-look")


def rows_of(*begins: bool, steps: int = 4, first: int = 0) -> TensorDictBase:
    """Rows by whether each begins with an episode, numbered from ``first`` on."""
    flags = torch.zeros(len(begins), steps, 1, dtype=torch.bool)
    flags[:, 0, 0] = torch.tensor(begins)
    number = torch.arange(first, first + len(begins)).unsqueeze(1).expand(-1, steps)
    return TensorDict({"number": number, "is_init": flags}, [len(begins), steps])


def test_rows_that_begin_inside_of_episodes_are_added() -> None:
    """As many as were given, those that begin inside first, of the batch with most of them."""
    collected = [rows_of(True, True), rows_of(True, False, True), rows_of(False, True, False)]
    (found,) = _beginning_inside([rows_of(True, True)], collected)
    assert found["number"][:, 0].tolist() == [0, 2]
    assert not found["is_init"].any()
    (found,) = _beginning_inside([rows_of(True, True, True)], collected)
    assert found["number"][:, 0].tolist() == [0, 2, 1]


def test_fewer_rows_are_given_twice() -> None:
    (found,) = _beginning_inside([rows_of(True, True, True)], [rows_of(True, False)])
    assert found["number"][:, 0].tolist() == [1, 0, 1]


def test_an_index_of_the_buffer_is_lent() -> None:
    """Whatever else the collected rows lack was made by someone."""
    given = rows_of(True, True).set("index", torch.zeros(2, 4, dtype=torch.long))
    (found,) = _beginning_inside([given], [rows_of(False, False)])
    assert set(found.keys()) == {"number", "is_init", "index"}


def test_they_hold_what_the_given_ones_do() -> None:
    given = rows_of(True).exclude("number")
    (found,) = _beginning_inside([given], [rows_of(False)])
    assert set(found.keys()) == {"is_init"}


@pytest.mark.parametrize(
    ("given", "collected"),
    [
        ([rows_of(True, False)], [rows_of(False, False)]),
        ([rows_of(True, True), rows_of(False, True)], [rows_of(False, False)]),
        ([rows_of(True, True)], [rows_of(False, False, steps=5)]),
        ([rows_of(True, True)], [rows_of(True, True), rows_of(True, True)]),
        ([rows_of(True, True).set("made", torch.zeros(2, 4))], [rows_of(False, False)]),
        ([rows_of(True, True).reshape(-1)], [rows_of(False, False)]),
        ([rows_of(True, True).exclude("is_init")], [rows_of(True, True).exclude("is_init")]),
        ([rows_of(True, True)], []),
    ],
    ids=[
        "one begins inside",
        "one of another batch begins inside",
        "another length",
        "none begins inside",
        "an entry that was made",
        "slices end to end",
        "no flags",
        "nothing collected",
    ],
)
def test_none_are_added_where_they_tell_nothing_more(
    given: list[TensorDictBase], collected: list[TensorDictBase]
) -> None:
    assert _beginning_inside(given, collected) == []
