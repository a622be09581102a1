"""Codewords: told apart alone, and never mistaken one over the other."""

from __future__ import annotations

import itertools

import pytest
import torch

from rnncheck.numerics.codewords import NOTHING, SEVERAL, codewords, decoded


@pytest.mark.parametrize("count", [1, 2, 3, 20, 21, 300])
def test_each_codeword_is_read_as_itself(count: int) -> None:
    words = codewords(count)
    assert torch.equal(decoded(words, words), torch.arange(count))


def test_two_codewords_over_each_other_are_no_third() -> None:
    words = codewords(40)
    over = torch.stack([words[a] | words[b] for a, b in itertools.combinations(range(40), 2)])
    assert bool((decoded(over, words) == SEVERAL).all())


def test_no_bit_and_too_few_bits() -> None:
    words = codewords(20)
    fewer = words[:1] & (torch.arange(words.shape[1]) != int(words[0].nonzero()[0]))
    seen = torch.cat([torch.zeros_like(fewer), fewer])
    assert decoded(seen, words).tolist() == [NOTHING, SEVERAL]


def test_the_number_of_bits_grows_with_the_logarithm() -> None:
    assert [codewords(count).shape[1] for count in (64, 128, 1000, 4096)] == [8, 10, 14, 16]
