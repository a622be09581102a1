"""Binary codes that tell things apart by which changes of a set of them are seen."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

NOTHING, SEVERAL = -1, -2


def codewords(count: int) -> Tensor:
    """``[count, bits]``: as many codewords, each true in half of its bits.

    All weigh the same, so that two of them over each other weigh more than one: they are no third.
    """
    bits = 2
    while math.comb(bits, bits // 2) < count:
        bits += 2
    words = torch.zeros(count, bits, dtype=torch.bool)
    chosen = itertools.combinations(range(bits), bits // 2)
    for number, places in enumerate(itertools.islice(chosen, count)):
        words[number, list(places)] = True
    return words


def decoded(seen: Tensor, words: Tensor) -> Tensor:
    """``[n]``: which codeword each of ``seen`` ``[n, bits]`` is; NOTHING where no bit is seen,
    SEVERAL where it is not just one of them."""
    digits = 2 ** torch.arange(words.shape[1])
    numbers = {int(word): number for number, word in enumerate((words * digits).sum(1))}
    numbers[0] = NOTHING
    return torch.tensor([numbers.get(int(one), SEVERAL) for one in (seen * digits).sum(1)])
