"""Whether the batch factory made a fault, or was given it."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rnncheck.pipeline.keys import STEP_KEY
from rnncheck.pipeline.recording.batch_changes import changed_between


def batch(*numbers: int) -> TensorDict:
    td = TensorDict({"h": torch.tensor(numbers) * 0.5}, [len(numbers)])
    td[STEP_KEY] = torch.tensor(numbers).unsqueeze(-1)
    return td


def test_rows_of_what_was_given_are_no_change() -> None:
    given = batch(1, 2, 3, 7, 8, 9)
    assert not changed_between(given, given.reshape(2, 3), "h")
    assert not changed_between(given, batch(3, 7, 8), "h")


def test_other_neighbours_are_a_change() -> None:
    assert changed_between(batch(1, 2, 3, 4), batch(1, 3, 2, 4), "h")


def test_another_entry_or_none_is_a_change_where_it_is_the_one_named() -> None:
    given, made = batch(1, 2, 3), batch(1, 2, 3)
    made["h"] = made["h"].roll(1)
    assert changed_between(given, made, "h")
    assert changed_between(given, made.exclude("h"), "h")
    assert not changed_between(given, made, "observation")


def test_a_batch_that_lost_its_numbers_is_changed() -> None:
    assert changed_between(batch(1, 2), batch(1, 2).exclude(STEP_KEY), "h")
