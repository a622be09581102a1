"""How fast the core is at a moment: a fixed piece of work, timed beside each sample.

A core is not equally fast all the time: what runs on its other hardware thread, or on the host of a
virtual machine, and its clock make the same call take half as long again for seconds. None of that
is waited for a core, so no counter of the system tells it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rnncheck.bench.timer import sample

# Calls of the two halves of the work, three milliseconds in all: a tenth of a sample. Measured on a
# shared core with an LSTM's training step of 50 ms: what lies between answers of 40 samples each
# was 27 to 50 % of them, and is 6 to 8 % once they are held against such work. A loop in Python is
# a worse measure (20 % and more). In the same time in all, the interval of the answer was 9.2 % in
# the mean with a third of this work, 7.6 to 7.8 % with two thirds, this and four thirds of it, and
# 9.1 % with five thirds, when samples became too few (10.9 % without).
PRODUCTS, CHAIN = 42, 180
# Share of the paces that are at least as quick as the best speed that counts. Chosen: the very
# least is one of chance.
BEST = 0.1


class Pace:
    """Call it for the seconds that the work takes now, without those that it waited for a core:
    small matrix products, and a chain of small operations, as the steps of a recurrent network
    are."""

    def __init__(self) -> None:
        import torch

        self._sigmoid, self._product = torch.sigmoid, torch.mm
        made = torch.Generator().manual_seed(0)
        self._left = torch.randn(64, 64, generator=made)
        self._right = torch.randn(64, 256, generator=made)
        self._chain = torch.randn(32, 64, generator=made)

    def __call__(self) -> float:
        return sample(self._work, 1)[0]

    def _work(self) -> None:
        for _ in range(PRODUCTS):
            self._product(self._left, self._right)
        value = self._chain
        for _ in range(CHAIN):
            value = self._sigmoid(value) + self._chain


def best_pace(paces: Sequence[float]) -> float:
    """Seconds of the work on a core that is as fast as it gets; 0 where it was not timed."""
    timed = [one for one in paces if one > 0]
    return float(np.quantile(timed, BEST)) if timed else 0.0


def speed(pace: float, best: float) -> float:
    """Of a core at which the work took ``pace``, where 1 is as fast as it gets; 1 where that is not
    known."""
    return best / pace if best > 0 and pace > 0 else 1.0
