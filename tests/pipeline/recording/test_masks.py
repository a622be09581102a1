"""What is taken for a mask of padding, and what only looks like one."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.recording.masks import MASK, halted, padding_mask


def padded(key: Key = ("filled",)) -> TensorDict:
    """Two rows of five steps, the second filled up from its third step on."""
    mask = torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
    seen = torch.rand(2, 5, 3) * mask.unsqueeze(-1)
    return TensorDict({key: mask, "o": seen, ("next", "o"): seen.clone()}, [2, 5])


@pytest.mark.parametrize("key", [("mask",), MASK, ("agent", "there")])
def test_a_mask_is_found_under_any_key(key: Key) -> None:
    found = padding_mask(padded(key))
    assert found is not None
    assert found[0] == key
    assert int((~found[1]).sum()) == 3


def test_a_trailing_dimension_is_no_hindrance() -> None:
    td = padded()
    td["filled"] = td["filled"].unsqueeze(-1)
    found = padding_mask(td)
    assert found is not None
    assert found[1].shape == (2, 5)


def test_steps_that_hold_data_are_not_padding() -> None:
    td = padded()
    td["o"] = torch.rand(2, 5, 3) + 1.0
    assert padding_mask(td) is None


def test_what_a_step_hands_on_is_an_observation() -> None:
    """What leads to it says so a step ahead; a mask that a loop carries along says the same."""
    td = padded()
    td["next", "filled"] = td["filled"].roll(-1, 1)
    assert padding_mask(td) is None
    td["next", "filled"] = td["filled"].clone()
    told = padding_mask(td)
    assert told is not None
    assert told[0] == ("filled",)


def test_a_flag_at_the_start_of_zeros_is_no_mask() -> None:
    flag = torch.tensor([[True, False, False]])
    zeros = torch.zeros(1, 3, 2)
    assert padding_mask(TensorDict({"is_init": flag, "o": zeros}, [1, 3])) is None


def rows_that_stopped(lengths: list[int], steps: int = 6) -> TensorDict:
    """Rows ``[rows, steps]`` of episodes of these lengths, whose last step is repeated."""
    at = torch.arange(steps).expand(len(lengths), steps)
    last = torch.tensor(lengths).unsqueeze(1) - 1
    time = torch.minimum(at, last)
    data = {"observation": time.unsqueeze(-1).double(), "action": time}
    after = {"observation": time.unsqueeze(-1).double() + 1, "done": (time == last).unsqueeze(-1)}
    return TensorDict({**data, "next": TensorDict(after, [len(lengths), steps])}, time.shape)


def test_copies_of_the_step_that_ended_a_row_are_padding() -> None:
    found = halted(rows_that_stopped([3, 1, 6]))

    assert found.sum(1).tolist() == [3, 5, 0]


def test_an_episode_of_one_step_may_be_played_again() -> None:
    assert not halted(rows_that_stopped([1, 1])).any()


def test_a_last_step_that_is_met_once_more_and_left_is_no_padding() -> None:
    rows = rows_that_stopped([3])
    rows["action"][0, 5] = 9

    assert not halted(rows).any()


def test_rows_without_done_flags_have_no_copies() -> None:
    assert not halted(TensorDict({"observation": torch.zeros(2, 4, 1)}, [2, 4])).any()
