"""LS701: what moves in more ways in one direction than in the other runs on."""

from __future__ import annotations

import pytest

from rnncheck.checks.evidence.coupling import _richer


@pytest.mark.parametrize(
    ("one", "other", "runs_on"),
    [
        ([1.0, 0.5, 3e-5, 1e-5], [1.0, 0.3, 6e-5, 2e-5], False),  # mean and deviation, both ways
        ([1.0, 0.4, 2e-5, 1e-5], [1.0, 0.7, 0.5, 0.06], True),  # and what every row adds
        ([1.0, 0.7, 0.5, 0.06], [1.0, 0.4, 2e-5, 1e-5], True),
        ([1.0, 0.5, 5e-3, 1e-5], [1.0, 0.5, 2e-3, 1e-5], False),  # not clearly more
        ([0.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.2, 0.1], False),  # one direction is dead
        ([1.0, 0.9, 0.8, 0.7], [1.0, 0.9, 0.8, 0.7], False),  # more than was looked at
    ],
)
def test_a_statistic_moves_alike_in_both_directions(
    one: list[float], other: list[float], runs_on: bool
) -> None:
    assert _richer(one, other) is runs_on
