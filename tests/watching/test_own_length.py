"""``rnncheck run``: training code that is written for as many steps as the script collects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.results.exit_codes import ExitCode
from rnncheck.watching.forms.own_length import OfOneSize, of_its_size
from tests.watching import length_script as scripts
from tests.watching.length_script import Change
from tests.watching.scripts import failed, planted, run


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((scripts.RETURNS,), id="around the pass"),
        pytest.param((scripts.RETURNS, scripts.UNROLLED), id="in the pass", marks=pytest.mark.slow),
    ],
)
def test_as_many_steps_as_the_script_has(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...]
) -> None:
    path = planted(tmp_path, "plain_single.py", *changes)
    code, told, _ = run(rnncheck, "--select", "BD,EQ,CL406,RP507", path)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    unseen = [one["code"] for one in told["checks"] if one["outcome"] == "inconclusive"]
    assert not unseen


@pytest.mark.slow
def test_no_more_steps_than_the_script_has(rnncheck: Any, tmp_path: Path) -> None:
    changes = (scripts.RETURNS, scripts.UNROLLED, scripts.SHORT)
    path = planted(tmp_path, "plain_single.py", *changes)
    code, told, _ = run(rnncheck, "--select", "BD301,EQ201,GR801", path)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    path = planted(tmp_path, "plain_single.py", *changes, scripts.RUNS_ON)
    code, told, _ = run(rnncheck, "--select", "EQ201,BD301", path)
    assert code == ExitCode.FAILED


def test_a_state_that_is_not_reset(rnncheck: Any, tmp_path: Path) -> None:
    changes = (scripts.RETURNS, scripts.NOT_RESET)
    path = planted(tmp_path, "plain_single.py", *changes)
    code, told, _ = run(rnncheck, "--select", "BD301", path)
    assert (code, failed(told)) == (ExitCode.FAILED, ["BD301"])


def batch(rows: int, steps: int) -> TensorDict:
    value = torch.arange(rows * steps, dtype=torch.float32).reshape(rows, steps, 1)
    flag = torch.zeros(rows, steps, 1, dtype=torch.bool)
    return TensorDict({"observation": value, "is_init": flag}, [rows, steps])


def sums(td: TensorDictBase) -> dict[Key, Tensor]:
    """Runs on rows of a multiple of two alone, and on six steps."""
    seen = td["observation"].reshape(-1, 2, 6, 1)
    return {("sum",): seen.cumsum(2).reshape(*td.shape, 1)}


def anywhere(td: TensorDictBase) -> dict[Key, Tensor]:
    return {("sum",): td["observation"].cumsum(1)}


def test_a_pass_that_runs_on_any_size_stays_as_it_is() -> None:
    assert of_its_size(anywhere, batch(2, 6)) is anywhere


def test_a_pass_that_does_not_run_at_all_stays_as_it_is() -> None:
    assert of_its_size(sums, batch(2, 5)) is sums


@pytest.mark.parametrize("shape", [(1, 6), (2, 3), (1, 1), (2, 6), (3, 4), (4, 6)])
def test_fewer_steps_give_what_they_would(shape: tuple[int, int]) -> None:
    over = of_its_size(sums, batch(2, 6))
    assert isinstance(over, OfOneSize)
    given = batch(*shape)
    assert torch.equal(over(given)["sum",], anywhere(given)["sum",])
