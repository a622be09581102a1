"""Where what a training batch holds of a step was recorded."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rnncheck.checks.evidence.recorded_entries import (
    OF_ANOTHER,
    RecordedEntry,
    clipped,
    is_function_of,
    levelled,
    moved_from,
)

ROWS, STEPS = 3, 20


def entry(given: Tensor, recorded: Tensor) -> RecordedEntry:
    return RecordedEntry(
        ("action",), given, recorded, torch.ones(recorded.shape[:2], dtype=torch.bool)
    )


def numbers(seed: int = 0) -> Tensor:
    return torch.rand(ROWS, STEPS, 2, generator=torch.Generator().manual_seed(seed))


def choices(count: int = 3, seed: int = 0) -> Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randint(count, (ROWS, STEPS), generator=made)


@pytest.mark.parametrize("far", [1, -1, 2, -3])
@pytest.mark.parametrize("values", [numbers(), choices()])
def test_entries_that_stand_early_or_late(far: int, values: Tensor) -> None:
    words = moved_from([entry(values.roll(far, 1), values)])
    steps = f"{abs(far)} step{'s' if abs(far) > 1 else ''}"
    assert words == f"{steps} {'earlier' if far > 0 else 'later'}"


def test_one_hot_entries_that_are_numbers_or_flags() -> None:
    chosen = choices()
    hot = torch.nn.functional.one_hot(chosen, 3)
    for values in (hot, hot.bool()):
        assert moved_from([entry(values.roll(1, 1), values)]) == "1 step earlier"
        assert all(map(torch.equal, entry(values, values).codes, (chosen, chosen)))


def test_entries_of_another_row_or_order() -> None:
    values = numbers()
    assert moved_from([entry(values.roll(1, 0), values)]) == "in another row"
    assert moved_from([entry(values.flip(1), values)]) == "at the other end of the row"
    turned = values.transpose(0, 1).reshape(ROWS, STEPS, 2)
    laid = "where the batch has rows and steps exchanged"
    assert moved_from([entry(turned, values)]) == laid
    back = values.reshape(STEPS, ROWS, 2).transpose(0, 1)
    assert moved_from([entry(back, values)]) == laid


@pytest.mark.parametrize("agents", [2, 3])
def test_entries_of_another_agent(agents: int) -> None:
    made = torch.Generator().manual_seed(1)
    values = torch.rand(ROWS, STEPS, agents, 1, generator=made)
    assert moved_from([entry(values.roll(1, 2), values)]) == OF_ANOTHER
    assert moved_from([entry(values.flip(2), values)]) == OF_ANOTHER
    shared = values[:, :, :1].expand_as(values).contiguous()  # all agents get the same
    assert moved_from([entry(shared.roll(1, 2), shared)]) == ""


def test_entries_of_nowhere() -> None:
    assert moved_from([entry(numbers(1), numbers())]) == ""
    assert moved_from([entry(choices(seed=1), choices())]) == ""


def test_few_steps_tell_nothing() -> None:
    """Of six steps of two actions, some order always fits."""
    few = choices(2)[:1, :6]
    assert moved_from([entry(few.roll(1, 1), few)]) == ""


def test_short_episodes_tell_together() -> None:
    whole = choices()
    parts = [whole[row : row + 1, :9] for row in range(ROWS)]
    assert moved_from([entry(part.roll(1, 1), part) for part in parts]) == "1 step earlier"


def test_a_batch_in_which_all_is_in_place_does_not_tell_of_the_others() -> None:
    values = numbers()
    assert moved_from([entry(values, values), entry(values.roll(1, 1), values)]) == "1 step earlier"
    assert moved_from([entry(values, values)]) == ""


@pytest.mark.parametrize("far", [0, 1])
def test_entries_that_are_moved_and_in_another_form(far: int) -> None:
    values = numbers() - 0.5
    words = "1 step earlier" if far else ""
    late = values.roll(far, 1)
    assert moved_from([levelled(entry(0.1 * late + 3, values))]) == words
    assert moved_from([clipped(entry(late.clamp(-0.2, 0.3), values))]) == words
    assert moved_from([clipped(entry(0.1 * late, values))]) == ""
    assert moved_from([entry(0.1 * late, values)]) == ""


@given(st.permutations(range(4)))
def test_another_numbering_is_a_form_of_it(order: list[int]) -> None:
    values = choices(4)
    assert is_function_of(entry(values, torch.tensor(order)[values]))
    one_hot = torch.nn.functional.one_hot(values, 4)
    assert is_function_of(entry(one_hot, one_hot[..., order]))


@given(st.floats(0.1, 5.0), st.floats(-2.0, 2.0), st.floats(0.05, 0.9))
def test_a_scale_and_a_clip_are_forms_of_it(scale: float, shift: float, limit: float) -> None:
    values = numbers() * 2 - 1
    assert is_function_of(entry(values, (scale * values + shift).clamp(-limit, limit)))
    assert is_function_of(entry(values, -scale * values))


def test_what_is_drawn_again_is_none() -> None:
    assert not is_function_of(entry(choices(seed=1), choices()))
    assert not is_function_of(entry(numbers(1), numbers()))
    one_hot = torch.nn.functional.one_hot
    assert not is_function_of(entry(one_hot(choices(seed=1), 3), one_hot(choices(), 3)))
