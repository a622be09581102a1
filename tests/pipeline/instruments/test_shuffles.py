"""Shuffles that keep the order, for a while."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch.utils.data import RandomSampler

from rnncheck.pipeline.instruments.shuffles import nothing_shuffled


def drawn() -> list[list[int]]:
    array, listed = np.arange(50), list(range(50))
    np.random.shuffle(array)
    random.shuffle(listed)
    return [
        torch.randperm(50).tolist(),
        torch.randperm(50, generator=torch.Generator(), dtype=torch.int32).tolist(),
        np.random.permutation(50).tolist(),
        np.random.permutation(np.arange(50)).tolist(),
        list(RandomSampler(range(50))),
        array.tolist(),
        listed,
    ]


def test_nothing_is_shuffled_inside_and_everything_behind() -> None:
    with nothing_shuffled():
        assert drawn() == [list(range(50))] * 7
    assert all(one != list(range(50)) for one in drawn())


def test_shuffles_are_back_where_a_loss_raises() -> None:
    with pytest.raises(RuntimeError), nothing_shuffled():
        raise RuntimeError
    assert drawn()[0] != list(range(50))
