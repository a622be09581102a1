"""EQ201 says that the first divergent step is a reset only where it is one."""

from __future__ import annotations

import torch

from rnncheck.checks.equivalence.mode_comparison import diverges_at_starts
from rnncheck.numerics.difference import locate


def at_starts(*resets: tuple[int, int]) -> bool:
    """Row 0 is the worst, at step 3; rows 1 and 2 diverge first, at step 1."""
    gaps, starts = torch.zeros(3, 5, 2), torch.zeros(3, 5, dtype=torch.bool)
    gaps[0, 3], gaps[1, 1], gaps[2, 1] = 9.0, 2.0, 2.0
    for place in resets:
        starts[place] = True
    found = locate(gaps, 1.0, torch.ones(3, 5, 2))
    assert found is not None
    return diverges_at_starts(found, starts)


def test_the_rows_that_diverge_first_are_asked() -> None:
    assert at_starts((1, 1), (2, 1))


def test_a_reset_of_the_worst_row_at_that_step_says_nothing() -> None:
    assert not at_starts((0, 1))
    assert not at_starts((0, 1), (1, 1))
