"""Which entry of a loop's tensordict its env was stepped with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from rnncheck.watching.forms.on_tensordicts import action_entry

TD = TensorDict(
    {
        "logits": torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
        "number": torch.tensor([1, 0]),
        "force": torch.tensor([[0.5], [-2.0]]),
        "next": TensorDict({"number": torch.tensor([2, 2])}, [2]),
    },
    [2],
)
WROTE = [("logits",), ("number",), ("force",), ("next", "number")]


@pytest.mark.parametrize(
    ("action", "key"),
    [
        (np.array([1, 0]), ("number",)),
        (np.array([[0.5], [-2.0]], dtype=np.float32), ("force",)),
        (np.array([2, 2]), None),  # what stands under `next` is none of the step
        (np.array([1, 1]), None),
        (np.array([1, 0, 1]), None),
    ],
)
def test_it_is_told_by_its_numbers(action: Any, key: Any) -> None:
    assert action_entry(TD, WROTE, action) == key


@pytest.mark.parametrize(
    ("held", "fits"),
    [
        (torch.tensor([[0, 1, 0], [1, 0, 0]]), True),
        (torch.tensor([[False, True, False], [True, False, False]]), True),
        (torch.tensor([[0, 1, 1], [1, 0, 0]]), False),  # two at once
        (torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]), False),  # values of actions
    ],
)
def test_the_env_may_get_the_number_of_it(held: Tensor, fits: bool) -> None:
    td = TensorDict({"action": held}, [2])
    assert (action_entry(td, [("action",)], np.array([1, 0])) is not None) is fits


def test_one_env_gets_one_number() -> None:
    td = TensorDict({"action": torch.tensor([0, 0, 1])})
    assert action_entry(td, [("action",)], 2) == ("action",)
