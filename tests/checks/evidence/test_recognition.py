"""Steps without a number are recognised by what they hold."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from rnncheck.checks.evidence.recognition import recognised
from rnncheck.pipeline.keys import Key

TOKENS = [1, 4, 4, 2, 3, 1, 4, 2, 4, 4]  # two trajectories of five, collected one after the other
SUCCESSOR = torch.tensor([1, 2, 3, 4, -1, 6, 7, 8, 9, -1])
STEADY: list[Key] = [("token",)]


def collected() -> dict[Key, Tensor]:
    torch.manual_seed(0)
    states = torch.rand(10, 3)
    states[[0, 5]] = 0.0
    actions = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    return {("token",): torch.tensor(TOKENS), ("state",): states, ("action",): actions}


def taken(columns: dict[Key, Tensor], *numbers: int) -> TensorDict:
    """A row of these steps."""
    at = torch.tensor(numbers)
    return TensorDict({key: value[at][None] for key, value in columns.items()}, [1, len(at)])


def found(rows: TensorDict, columns: dict[Key, Tensor]) -> list[int]:
    every = torch.ones(len(SUCCESSOR), dtype=torch.bool)
    return recognised(rows, columns, STEADY, SUCCESSOR, every)[0].tolist()


@pytest.mark.parametrize("keys", [("token",), ("token", "state"), ("token", "action")])
def test_a_stretch_of_tokens_is_the_one_that_goes_on(keys: tuple[str, ...]) -> None:
    columns = collected()
    assert found(taken(columns, 5, 6, 7, 8, 9).select(*keys), columns)[:4] == [5, 6, 7, 8]


def test_shuffled_steps_are_told_by_what_else_they_hold() -> None:
    columns = collected()
    assert found(taken(columns, 3, 1, 0, 2, 9), columns) == [3, 1, 0, 2, 9]


def test_a_state_that_was_zeroed_does_not_hide_the_step() -> None:
    columns = collected()
    rows = taken(columns, 1, 2, 3, 4)
    rows["state"] = torch.zeros_like(rows["state"])
    assert found(rows, columns) == [1, 2, 3, 4]


def test_steps_are_told_by_types_that_numpy_lacks() -> None:
    columns = collected()
    columns["state",] = columns["state",].bfloat16()
    columns["token",] = columns["token",].to(torch.bfloat16)
    assert found(taken(columns, 3, 1, 0, 2, 9), columns) == [3, 1, 0, 2, 9]


def test_what_was_never_collected_is_unknown() -> None:
    columns = collected()
    rows = taken(columns, 0, 1)
    rows["token"] = rows["token"] + 100
    assert found(rows, columns) == [-1, -1]


def test_padding_is_no_candidate() -> None:
    columns = collected()
    valid = torch.ones(10, dtype=torch.bool)
    valid[:5] = False
    rows = taken(columns, 1, 2)
    assert recognised(rows, columns, STEADY, SUCCESSOR, valid).min() >= 5


def test_minus_zero_is_zero() -> None:
    columns = collected()
    rows = taken(columns, 5, 6, 7, 8, 9)
    rows["state"] = torch.where(rows["state"] == 0, -0.0, rows["state"])
    assert rows["state"][0, 0].signbit().all()
    assert found(rows, columns) == [5, 6, 7, 8, 9]
