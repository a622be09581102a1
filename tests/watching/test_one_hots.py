"""Whole numbers that a script holds as vectors in which one number is set."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from rnncheck.watching.forms.one_hots import set_numbers, with_one_set

WIDE = 4
ROWS = st.lists(st.lists(st.integers(0, WIDE - 1), min_size=3, max_size=3), min_size=1, max_size=4)


@given(ROWS)
def test_there_and_back(rows: list[list[int]]) -> None:
    numbers = torch.tensor(rows).unsqueeze(-1)
    vectors = with_one_set(numbers, WIDE).float()
    found = set_numbers(vectors, numbers)
    assert found is not None
    assert torch.equal(found, numbers)


def test_padding_sets_none() -> None:
    numbers, data = torch.tensor([[[1], [0]]]), torch.tensor([[True, False]])
    vectors = with_one_set(numbers, WIDE, data)
    assert vectors[0, 1].tolist() == [0] * WIDE
    assert set_numbers(vectors.float(), numbers) is None
    found = set_numbers(vectors.float(), numbers, data)
    assert found is not None
    assert int(found[0, 0]) == 1


def test_other_vectors_are_none() -> None:
    numbers = torch.zeros(1, 2, 1, dtype=torch.long)
    assert set_numbers(torch.full((1, 2, WIDE), 0.25), numbers) is None
    assert set_numbers(torch.ones(1, 2, 1), numbers) is None
    assert set_numbers(torch.eye(WIDE)[:2].unsqueeze(0), numbers.float()) is None
