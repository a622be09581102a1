"""What reads with indices raises ahead of the device. The device here is torch's ``meta``, which
takes any index."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rnncheck.pipeline.guard.indices import RangesKept

NUMBERS = torch.arange(12.0).reshape(3, 4)
Read = Callable[[Tensor, int], object]
# Each reads of three rows or classes the one that it is given.
READS: dict[str, Read] = {
    "rows by a tensor": lambda held, one: held[torch.tensor([0, one])],
    "rows by an array": lambda held, one: held[np.array([0, one])],
    "rows and columns": lambda held, one: held[torch.tensor([one, 0]), 1:],
    "written rows": lambda held, one: held.clone().__setitem__(torch.tensor([one]), 0.0),
    "gather": lambda held, one: held.gather(0, torch.full((1, 4), one)),
    "index_select": lambda held, one: torch.index_select(held, dim=0, index=torch.tensor([one])),
    "embedding": lambda held, one: functional.embedding(torch.tensor([one]), held),
}


@pytest.mark.parametrize("name", READS)
def test_what_is_out_of_range_raises_before_it_is_done(name: str) -> None:
    there = NUMBERS.to("meta")
    READS[name](there, 3)
    with RangesKept():
        READS[name](there, 2)
        with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)"):
            READS[name](there, 3)


def test_classes_are_looked_at() -> None:
    with RangesKept(), pytest.raises(RuntimeError, match="smaller than num_classes"):
        functional.one_hot(torch.tensor([3]), num_classes=3)
    with RangesKept(), pytest.raises(IndexError, match="out of bounds"):
        functional.cross_entropy(NUMBERS.T, torch.full((4,), 3))


def test_what_is_no_probability_is_not_drawn_from() -> None:
    with RangesKept():
        torch.multinomial(NUMBERS, 1)
        with pytest.raises(RuntimeError, match="probability tensor contains"):
            torch.multinomial(NUMBERS / 0, 1)


@pytest.mark.parametrize("name", READS)
def test_what_is_in_range_is_what_it_is_without(name: str) -> None:
    plain, state = READS[name](NUMBERS, 1), torch.get_rng_state()
    with RangesKept():
        found = READS[name](NUMBERS, 1)
        assert torch.equal(torch.get_rng_state(), state)
    if isinstance(found, Tensor):
        assert isinstance(plain, Tensor)
        assert torch.equal(found, plain)
